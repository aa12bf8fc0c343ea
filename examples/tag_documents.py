"""From a CSV of tagged documents to a tagger, and its tags for new texts.

    python examples/tag_documents.py [docs.csv]

The CSV has the columns `text` and `labels` (labels separated by `|`). Without one, the demo corpus is taken.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import xmtc
from xmtc.data import demo_folder

NEW_TEXTS = (
    "A fast mail server with spam filtering and a web interface.",
    "Library for reading and writing PNG images from Python programs.",
)


def demo_csv(folder: Path) -> Path:
    """The demo corpus as a CSV file; the names of its labels go beside it, where `xmtc.read` looks for them."""
    xmtc.write(xmtc.read(demo_folder()), folder / "docs.csv")
    (folder / "labels.tsv").write_bytes((demo_folder() / "labels.tsv").read_bytes())
    return folder / "docs.csv"


def main() -> None:
    """Read, split, train, measure, save, load, predict."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else demo_csv(Path(scratch))
        corpus = xmtc.read(path)

        # Hold a tenth back to see how good the tagger is; every label keeps a document to be learned from.
        train, test = corpus.split(test=0.1, seed=0, method="stratified")
        model = xmtc.make("knn").fit(train)
        print(xmtc.evaluate(model, test))

        folder = Path(scratch) / "tagger"
        model.save(folder)
        model = xmtc.load(folder)

        # A score is the label's share of the neighbours' votes; below 0.3 it is rarely right on the demo corpus.
        top = model.predict(NEW_TEXTS, k=5).threshold(0.3)
        for text, tags in zip(NEW_TEXTS, top.names(), strict=True):
            print(f"\n{text}")
            for name, score in tags:
                print(f"  {score:.2f}  {name}")


if __name__ == "__main__":
    main()
