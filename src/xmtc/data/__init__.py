"""Data that the package carries: a small corpus to try everything on without a download."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def demo_folder() -> Path:
    """The folder of the demo corpus: 4,000 Debian packages with their tags, as train, test and `labels.tsv`.

    Made by `tools/make_demo_data.py`; origin and licences are in the NOTICE beside it.

    >>> sorted(path.name for path in demo_folder().iterdir())
    ['labels.tsv', 'test.jsonl.gz', 'train.jsonl.gz']
    """
    # The wheel is installed as plain files, so the resource is a path.
    return Path(str(files(__name__))) / "debtags"
