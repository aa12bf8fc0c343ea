"""Whether training that is killed goes on as if nothing had been: `kill -9` at random moments, then `--resume`.

    python -m benchmarks.speed.resume [--kills 20] [--seed 0] [--methods attentionxml,rank_ae,c2ae] [--documents 600]

Each method is trained with small settings on some documents of the demo corpus by `xmtc train`, once uninterrupted. For
each kill the same command is started again, killed with all its processes at a moment chosen uniformly from the time
that the whole run takes, and run once more with --resume. All weights and matrices of the two models must be the same,
byte by byte.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from xmtc.data import demo_folder

COMMAND = (sys.executable, "-c", "from xmtc.cli import run; run()", "train")
SETTINGS = {
    "attentionxml": (
        *("tree=tree", "max_leaf=8", "hidden=64", "layers=[64]", "words.vectors=random", "words.dimensions=64"),
        *(
            "training.epochs=[6,4]",
            "training.swa_start_epoch=2",
            "training.batch_size=20",
            "training.evaluate_every=25",
        ),
    ),
    "rank_ae": (
        *("hidden=256", "training.epochs=20", "training.batch_size=20", "training.evaluate_every=20"),
        *("training.valid_documents=100", "training.swa_start_epoch=6", "negative_samples=128"),
    ),
    "c2ae": ("hidden=256", "training.epochs=40", "training.batch_size=20", "training.evaluate_every=25"),
}


def write_corpus(documents: int, folder: Path) -> Path:
    """The first documents of the demo corpus."""
    file = folder / "train.jsonl"
    with gzip.open(demo_folder() / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        file.write_text("".join(islice(lines, documents)), "utf-8")
    return file


def command(method: str, corpus: Path, out: Path) -> list[str]:
    """What trains a model."""
    pairs = [word for pair in SETTINGS[method] for word in ("--set", pair)]
    return [*COMMAND, str(corpus), "--model", method, "--out", str(out), "--seed", "0", "--device", "cpu", *pairs]


def trained(method: str, corpus: Path, out: Path, *options: str) -> float:
    """Train a model to the end; how many seconds it took."""
    start = time.perf_counter()
    done = subprocess.run([*command(method, corpus, out), *options], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{method}: {done.stderr}")
    return time.perf_counter() - start


def killed(method: str, corpus: Path, out: Path, seconds: float) -> float | None:
    """Begin to train a model and kill it after some seconds; if it had ended by then, how many it took."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command(method, corpus, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children are of the same group
        process.wait()
        return None
    return time.perf_counter() - start


def arrays(folder: Path) -> dict[str, bytes]:
    """The contents of all files of a model with numbers."""
    found = {file.name: file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))}
    assert found, f"{folder}: no arrays"
    return found


def different(one: Path, other: Path) -> list[str]:
    """The files of two models that are not the same."""
    first, second = arrays(one), arrays(other)
    return sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    parser.add_argument("--methods", default=",".join(SETTINGS))
    parser.add_argument("--documents", type=int, default=600, help="of the demo corpus (600)")
    options = parser.parse_args()
    methods, rng, same = options.methods.split(","), np.random.default_rng(options.seed), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus = write_corpus(options.documents, folder)
        whole = {method: trained(method, corpus, folder / method) for method in methods}
        print(", ".join(f"{method} takes {seconds:.1f} s" for method, seconds in whole.items()), flush=True)
        for number in range(options.kills):
            method = methods[number % len(methods)]
            out = folder / f"{method}-{number}"
            moment = rng.uniform(0, whole[method])
            while (ended := killed(method, corpus, out, moment)) is not None:  # the machine is less busy than before
                shutil.rmtree(out)
                whole[method] = ended
                moment = rng.uniform(0, ended)
            kept = sorted(file.stem for file in folder.glob(f".{out.name}.checkpoints/*.safetensors"))
            trained(method, corpus, out, "--resume")
            wrong = different(folder / method, out)
            same += not wrong
            found = f"different: {', '.join(wrong)}" if wrong else "the same"
            print(f"{method}, killed after {moment:.2f} s (kept: {', '.join(kept) or 'nothing'}): {found}", flush=True)
    print(f"{same} of {options.kills} the same")


if __name__ == "__main__":
    main()
