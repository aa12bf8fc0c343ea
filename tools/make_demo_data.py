"""Make the demo corpus that the package carries: a small part of Debian's tagged packages.

    PYTHONPATH=src python tools/make_demo_data.py /path/to/full/debtags

The same input gives the same bytes. Training documents come from the given train file and test documents from the given
test file, so that figures on the demo stay clean of each other. Every label that the full train file has keeps at least
one training document.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import jsonl
from xmtc.corpus.sources import Source
from xmtc.corpus.statistics import describe
from xmtc.data import demo_folder

TRAIN_DOCUMENTS = 3_600
TEST_DOCUMENTS = 400
SEED = 0


def main() -> None:
    """Read the full corpus, draw both parts, write them into the package and say what is in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("full", type=Path, help="folder with train.jsonl.gz, test.jsonl.gz and labels.tsv")
    full = parser.parse_args().full
    out = demo_folder()
    out.mkdir(exist_ok=True)

    full_train, full_test = (_read(full / f"{part}.jsonl.gz") for part in ("train", "test"))
    # The rest of a stratified split has every label; the part set aside has each label in its natural share.
    train, _ = full_train.split(len(full_train) - TRAIN_DOCUMENTS, seed=SEED, method="stratified")
    _, test = full_test.split(TEST_DOCUMENTS, seed=SEED, method="stratified")
    jsonl.write(train, str(out / "train.jsonl.gz"))
    jsonl.write(test, str(out / "test.jsonl.gz"))
    shutil.copyfile(full / "labels.tsv", out / "labels.tsv")

    lost = np.count_nonzero(full_train.label_counts) - np.count_nonzero(train.label_counts)
    print(f"labels of the full train file without a document in the demo's: {lost}")
    for what, figure in describe(train, test).rows():
        print(f"{what:32} {figure}")
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>9,} bytes {path.name}")


def _read(path: Path) -> Corpus:
    return jsonl.read(Source(path), ReadOptions())


if __name__ == "__main__":
    main()
