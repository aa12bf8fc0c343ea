"""Label sets of the formats that know labels only by number (xmc, npz)."""

from __future__ import annotations

from pathlib import Path

from xmtc.corpus import label_file
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput, XmtcError


def numbered_labels(path: str, count: int, given: LabelSet | None, *, exact: bool) -> LabelSet:
    """The label set of a file with labels 0 to count - 1.

    Number i is the i-th label of the given label set, else of a `labels.tsv` in the same folder if that has `count`
    labels, else the label with the key "i". Without `exact`, the file does not say how many labels there are, `count`
    is only what occurs in it, and a longer label set fits as well.
    """

    def fits(labels: LabelSet) -> bool:
        return len(labels) == count or (not exact and len(labels) > count)

    if given is not None and (fits(given) or is_numbers(given)):
        return given.extend(map(str, range(len(given), count)))
    if given is not None:
        problem = f"it has {count} labels, but the label set that was given has {len(given)}"
        raise BadInput(path, None, problem, "give the label set that belongs to it, or none")
    beside = label_file.beside(path)
    if beside is not None and fits(labels := label_file.read(beside)):
        return labels
    return LabelSet(Strings.of(map(str, range(count))))


def is_numbers(labels: LabelSet) -> bool:
    """Whether the labels are just "0", "1", ... without names or parents, so that a number says all."""
    plain = labels.names is None and labels.descriptions is None and labels.parents is None
    return plain and all(key == str(i) for i, key in enumerate(labels.keys))


def write_labels_beside(labels: LabelSet, path: str) -> None:
    """Write `labels.tsv` into the folder of a file that has only numbers; one of other labels is never overwritten."""
    target = Path(path).with_name(label_file.NAME)
    if target.exists():
        if label_file.read(target) != labels:
            raise XmtcError(f"{target} is there already and holds other labels; write to another folder")
    elif not is_numbers(labels):
        label_file.write(labels, target)
