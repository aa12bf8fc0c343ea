"""One run of `xmtc compare`, in a separate process so that its memory can be measured: `python -m ... FOLDER`."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xmtc.cli.cluster import on_cluster
from xmtc.cli.output import write_json
from xmtc.cli.read_options import Reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.errors import XmtcError
    from xmtc.models.base import Model

DISK_FULL = 3  # the exit code of a run that had no room to write
SPEC, RESULT, TOP, MODEL, PIECES = "run.json", "result.json", "top", "model", "pieces"


class Parts(NamedTuple):
    """The documents of a comparison; `valid` are for choices in training and for thresholds, None if there are none."""

    train: Corpus
    test: Corpus
    valid: Corpus | None
    split: str  # how it was split, "" if it was not


def parts(corpus: str, test: str, valid: str | None, reading: Reading) -> Parts:
    """The parts of a folder, or a corpus with a share of it, or another file, as test part.

    Validation documents are a share of those to train on or a file, else the `dev` part of a folder that has one.
    """
    from xmtc.corpus.folder import has_part
    from xmtc.errors import ConfigError

    if corpus == "-":
        raise ConfigError("compare reads its corpus once for each run; give a file or a folder instead of -")
    documents = reading.read(corpus)
    is_folder, how = Path(corpus).is_dir(), ""
    if is_folder and has_part(corpus, "test"):
        train, held_out = documents, reading.read(corpus, "test")
    else:
        train, held_out = reading.hold_out(documents, test, "--test", seed=0)
        if train is not documents:
            how = f"no test part, so these were drawn with seed 0 (--test {test})"
    if valid is not None:
        train, chosen = reading.hold_out(train, valid, "--valid", seed=0)
        return Parts(train, held_out, chosen, how)
    dev = reading.read(corpus, "dev") if is_folder and has_part(corpus, "dev") else None
    return Parts(train, held_out, dev, how)


def run(folder: Path) -> dict[str, Any]:
    """Train or load, predict and measure as the folder's specification says; the predictions go into the folder."""
    spec = json.loads((folder / SPEC).read_text("utf-8"))
    with on_cluster(spec.get("cluster")):
        return _result(spec, folder)


def _result(spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    from safetensors.numpy import save_file

    from xmtc.evaluation.compare import timed_predictions
    from xmtc.evaluation.evaluate import evaluate
    from xmtc.memory import peak_memory

    train, test, valid, _ = parts(spec["corpus"], spec["test"], spec["valid"], Reading(**spec["reading"]))
    resumed = (folder / PIECES).exists()
    model, place = (
        _trained(spec, train, valid, folder) if "folder" not in spec else _loaded(spec["folder"], valid, test)
    )
    top, per_second = timed_predictions(model, test)
    save_file({"ids": top.ids.copy(), "scores": top.scores.copy()}, folder / f"{TOP}.safetensors")
    costs = {
        "training": model.training_.get("seconds"),
        "documents/s": per_second,
        # Without a training it would be another quantity.
        "memory": peak_memory() if "folder" not in spec else None,
        "size": sum(file.stat().st_size for file in place.iterdir()),
    }
    known = {name: cost for name, cost in costs.items() if cost is not None}
    result: dict[str, Any] = {"status": "finished", "kind": top.kind.value, "resumed": resumed, "costs": known}
    if valid is not None:
        result["micro_f1"] = evaluate(model, test, threshold=model.thresholds_).values["micro-F1"]
    return result


def _trained(spec: dict[str, Any], train: Corpus, valid: Corpus | None, folder: Path) -> tuple[Model, Path]:
    """A new model, with thresholds if there are validation documents, and the folder that it is saved to."""
    from xmtc.models.registry import make

    model = make(spec["model"], **spec["settings"]).fit(train, valid, folder / PIECES)
    if valid is not None:
        model.tune(valid)
    model.save(folder / MODEL)
    return model, folder / MODEL


def _loaded(path: str, valid: Corpus | None, test: Corpus) -> tuple[Model, Path]:
    """The model of a folder, tuned as others are, and the folder; an error if no label of the test documents is its."""
    from xmtc.errors import XmtcError
    from xmtc.models.registry import load
    from xmtc.storage import opening

    model = load(path, device="auto")
    assert model.labels_ is not None
    if all(model.labels_.index(key) < 0 for key in test.labels.keys):
        raise XmtcError(f"none of its labels, such as {model.labels_.key(0)!r}, is one of {test.name}")
    if valid is not None:
        model.tune(valid)
    return model, opening(path, verify=False).folder


def main() -> int:
    """Do the run and write its result, also if it failed."""
    import shutil

    from safetensors import SafetensorError

    from xmtc.cli import sentence
    from xmtc.errors import XmtcError

    folder = Path(sys.argv[1])
    try:
        result = run(folder)
        shutil.rmtree(folder / PIECES, ignore_errors=True)
    except KeyboardInterrupt:  # it reaches the comparison too, which says so
        return 1
    except Exception as error:
        if is_disk_full(error):
            return DISK_FULL
        reason = sentence(error)
        if not isinstance(error, (XmtcError, OSError, MemoryError, SafetensorError)):
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
        result = {"status": "failed", "reason": reason}
    try:
        write_json(str(folder / RESULT), result)
    except (XmtcError, OSError) as error:
        print(f"{folder}: the result cannot be written: {sentence(error)}", file=sys.stderr)
        return DISK_FULL if is_disk_full(error) else 1
    return int(result["status"] != "finished")


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or the one behind it, says that there is no room to write."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if f"(os error {errno.ENOSPC})" in str(error):  # of safetensors, which does not raise OSError
            return True
        error = error.__cause__ or error.__context__
    return False


def full_disk(folder: Path) -> XmtcError:
    """What to say of a comparison that has no room."""
    from xmtc.errors import XmtcError

    return XmtcError(
        f"{folder}: the disk is full; make room and start the same command again, which keeps the finished runs"
    )


def end_with_the_comparison() -> None:
    """End when the process that started this one ends, however that happens; else it would run beside its successor."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_the_comparison()
    sys.exit(main())
