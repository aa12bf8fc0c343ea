"""A result never replaces a file that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmtc.corpus.overwriting import check_not_input
from xmtc.errors import BadInput


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "corpus").mkdir()
    for name in ("docs.csv", "corpus/train.csv", "corpus/test_texts.txt", "corpus/labels.tsv", "corpus/answers.csv"):
        (tmp_path / name).write_text("text\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("out", "given"),
    [
        ("docs.csv", "docs.csv"),
        ("./corpus/../docs.csv", "docs.csv"),
        ("corpus/train.csv", "corpus"),
        ("corpus/test_texts.txt", "corpus"),
        ("corpus/labels.tsv", "corpus"),
    ],
)
def test_an_output_that_is_an_input_is_refused(corpus: Path, out: str, given: str) -> None:
    with pytest.raises(BadInput, match="writing would replace it"):
        check_not_input(out, None, "-", given)
    with pytest.raises(BadInput, match="writing would replace it"):
        check_not_input(Path(out).absolute(), given)


def test_links_are_the_file_they_point_to(corpus: Path) -> None:
    Path("soft.csv").symlink_to("docs.csv")
    Path("hard.csv").hardlink_to("docs.csv")
    for link in ("soft.csv", "hard.csv"):
        with pytest.raises(BadInput, match=link):
            check_not_input(link, "docs.csv")


@pytest.mark.parametrize("out", ["-", "new.csv", "corpus/answers.csv", "corpus/train-answers.csv"])
def test_other_outputs_are_fine(corpus: Path, out: str) -> None:
    check_not_input(out, "docs.csv", "corpus", "nowhere.csv", None, "", "-")
