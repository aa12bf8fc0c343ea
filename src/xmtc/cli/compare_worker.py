"""One run of `xmtc compare`, in a separate process so that its memory can be measured: `python -m ... FOLDER`."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmtc.cli.output import write_json
from xmtc.cli.read_options import Reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus

LENGTH = 10  # of the lists that are kept
WARM_UP = 16  # documents tagged before the clock starts: compiling is not tagging
SPEC, RESULT, TOP, MODEL, PIECES = "run.json", "result.json", "top", "model", "pieces"


def parts(corpus: str, test: str, reading: Reading) -> tuple[Corpus, Corpus]:
    """(train, test): those of a folder that has both, or a corpus with a share of it, or another file, as test part."""
    from xmtc.corpus.folder import has_part
    from xmtc.errors import ConfigError

    if corpus == "-":
        raise ConfigError("compare reads its corpus once for each run; give a file or a folder instead of -")
    documents = reading.read(corpus)
    if Path(corpus).is_dir() and has_part(corpus, "test"):
        return documents, reading.read(corpus, "test")
    return reading.hold_out(documents, test, "--test", seed=0)


def run(folder: Path) -> dict[str, Any]:
    """Train, save, predict and measure as the folder's specification says; the predictions go into the folder."""
    from safetensors.numpy import save_file

    from xmtc.memory import peak_memory
    from xmtc.models.registry import make

    spec = json.loads((folder / SPEC).read_text("utf-8"))
    train, test = parts(spec["corpus"], spec["test"], Reading(**spec["reading"]))
    resumed = (folder / PIECES).exists()
    model = make(spec["model"], **spec["settings"]).fit(train, None, folder / PIECES)
    model.save(folder / MODEL)
    model.predict(test[:WARM_UP], LENGTH)
    start = time.perf_counter()
    top = model.predict(test, LENGTH)
    seconds = time.perf_counter() - start
    save_file({"ids": top.ids.copy(), "scores": top.scores.copy()}, folder / f"{TOP}.safetensors")
    return {
        "status": "finished",
        "kind": top.kind.value,
        "resumed": resumed,
        "costs": {
            "training": model.training_["seconds"],
            "documents/s": len(test) / max(seconds, 1e-9),
            "memory": peak_memory(),
            "size": sum(file.stat().st_size for file in (folder / MODEL).iterdir()),
        },
    }


def main() -> int:
    """Do the run and write its result, also if it failed."""
    import shutil

    from xmtc.cli import sentence
    from xmtc.errors import XmtcError

    folder = Path(sys.argv[1])
    try:
        result = run(folder)
        shutil.rmtree(folder / PIECES, ignore_errors=True)
    except KeyboardInterrupt:  # it reaches the comparison too, which says so
        return 1
    except (XmtcError, OSError, MemoryError) as error:
        result = {"status": "failed", "reason": sentence(error)}
    except Exception as error:
        traceback.print_exc()
        result = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    write_json(str(folder / RESULT), result)
    return int(result["status"] != "finished")


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
