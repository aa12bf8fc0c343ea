"""`xmtc explain`: every model that can, colours only where they can be shown, errors in one line."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from xmtc.cli import main
from xmtc.cli.explain import coloured, show
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.models.explanation import LISTED, Explanation
from xmtc.models.registry import load, make

Run = Callable[..., tuple[int, str, str]]
HOSTILE = "\x1b[31mred\u202e"
LABELS = LabelSet.of(["l1", "l2", "l3"], names=["Sea", "Kitchen", HOSTILE])
CORPUS = Corpus.of(
    ["the ship on the sea", "a ship and its sail", "bread from the oven", "warm bread and butter", "a sky, blue"] * 3,
    [["l1"], ["l1"], ["l2"], ["l2"], ["l3"]] * 3,
    LABELS,
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model of each kind that trains in a moment."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("prior", "knn", "dismec", "parabel", "bonsai"):
        make(name).fit(CORPUS).save(folder / name)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `xmtc explain` in an empty folder beside the models: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(models)

    def call(model: str, *words: str) -> tuple[int, str, str]:
        code = main(["explain", f"models/{model}", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def console(**settings: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=60, _environ={}, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["knn", "dismec", "parabel", "bonsai"])
def test_the_best_labels(run: Run, models: Path, name: str) -> None:
    code, out, err = run(name, "--text", "A SHIP with bread", "--k", "2")
    said = [line for line in err.splitlines() if not line.startswith("compiled ")]  # at the first use of a kernel
    assert (code, said) == (0, [])
    text = "A SHIP with bread"
    best = load(models / name).predict([text], 2).ids[0].tolist()
    expected = [repr(load(models / name).explain(text, LABELS.key(at))) for at in best]
    assert out == "\n\n".join(expected) + "\n"
    assert "  ship  " in out
    assert "\x1b" not in out


def test_three_labels_unless_told(run: Run) -> None:
    _, out, _ = run("dismec", "--text", "ship bread sky")
    assert sorted(block.split(":")[0] for block in out.split("\n\n")) == sorted(
        [r"\x1b[31mred\u202e", "Kitchen", "Sea"]
    )


@pytest.mark.parametrize("label", ["l2", "Kitchen"])
def test_a_label_by_key_or_name(run: Run, label: str) -> None:
    code, out, _ = run("dismec", "--text", "ship bread", "--label", label)
    assert code == 0
    assert out.startswith("Kitchen: ")
    assert "\n\n" not in out


def test_text_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa ship\non the sea\n")))
    code, _, _ = run("knn", "--text", "-", "--json", "why.json")
    assert code == 0
    assert json.loads(Path("why.json").read_text())["labels"][0]["text"] == "a ship\non the sea"


def test_text_without_any_known_word(run: Run) -> None:
    assert run("knn", "--text", "xyz", "--html", "why.html") == (0, "no label\n", "written: why.html\n")
    assert "no label" in Path("why.html").read_text()


def test_json_and_page(run: Run, models: Path) -> None:
    command = ("knn", "--text", "Ship & <b>bread</b>", "--label", "Sea")
    code, out, err = run(*command, "--json", "why.json", "--html", "why.html")
    assert (code, err) == (0, "written: why.json\nwritten: why.html\n")
    assert out.startswith("Sea: ")
    (answer,) = json.loads(Path("why.json").read_text())["labels"]
    why = load(models / "knn").explain("Ship & <b>bread</b>", "Sea")
    assert (answer["label"], answer["name"], answer["score"]) == ("l1", "Sea", why.score)
    assert [(each["word"], each["weight"]) for each in answer["words"]] == list(why.words)
    assert (answer["spans"], answer["evidence"]) == ([], list(why.evidence))
    html = Path("why.html").read_text()
    assert ">Ship</mark> &amp; &lt;b&gt;" in html


def test_json_on_standard_output_stands_alone(run: Run) -> None:
    code, out, err = run("knn", "--text", "ship", "--json", "-")
    assert code == 0
    assert json.loads(out)["labels"][0]["name"] == "Sea"
    assert err.startswith("Sea: ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["prior", "--text", "ship"], "prior cannot explain its answers; `xmtc models` shows which methods can"),
        (["knn", "--text", "ship", "--label", "Kitchn"], "there is no label 'Kitchn'; did you mean 'Kitchen'?"),
        (["knn", "--text", " \n"], "--text: the text is empty; give one in quotes"),
        (["knn", "--text", "a\udcff"], "--text: not UTF-8: byte 0xff at column 2"),
        (["nowhere", "--text", "ship"], "models/nowhere: no such model folder"),
        (["knn", "--text", "ship", "--html", "no/why.html"], "its folder does not exist"),
        (["knn", "--text", "ship", "--k", "0"], "'--k'"),
        (["knn"], "give a document to explain: a file of documents, or --text, one of them"),
        (["knn", "docs.csv", "--text", "ship"], "one of them"),
        (["knn", "--text", "ship", "--document", "d1"], "--document chooses from a file of documents"),
        (["knn", "absent.csv"], "absent.csv: no such file"),
    ],
)
def test_users_errors(run: Run, words: list[str], expected: str, tmp_path: Path) -> None:
    code, out, err = run(words[0], *words[1:])
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert expected in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["models"]


def test_standard_input_that_is_not_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xff")))
    assert run("knn", "--text", "-")[0::2] == (
        2,
        "error: --text: not UTF-8: byte 0xff at column 2; convert it to UTF-8\n",
    )


def test_a_model_of_features_has_no_words(run: Run, tmp_path: Path) -> None:
    (tmp_path / "features.jsonl").write_text('{"features": {"3": 1}, "labels": ["x"]}\n')
    assert main(["train", "features.jsonl", "--model", "knn", "--out", "models/features"]) == 0
    code, _, err = run("features", "--text", "ship")
    assert code == 2
    assert "was trained on features" in err.splitlines()[-1]


def test_colours_on_a_terminal() -> None:
    why = Explanation("Sea", 0.5, (("ship", 0.5), ("bread", -0.5), ("a", 0.001)), ("seen",), "A ship, Bread")
    spoken = coloured(why)
    assert spoken.plain == "A ship, Bread"
    assert [(spoken.plain[span.start : span.end], str(span.style)) for span in spoken.spans] == [
        ("ship", "#ffffff on rgb(23,105,170)"),
        ("Bread", "#ffffff on rgb(194,87,12)"),
    ]
    terminal = console()
    show([why], terminal)
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "48;2;23;105;170mship\x1b[0m, " in shown
    assert "\x1b[1mSea: 0.500\x1b[0m\n  ship " in shown


def test_spans_colour_each_place_by_itself() -> None:
    why = Explanation("Sea", 0.5, (("ship", 1.0),), (), "ship ship", ((0, 4, 0.25), (5, 9, 0.75)))
    first, second = coloured(why).spans
    assert (first.start, second.start, str(second.style)) == (0, 5, "#ffffff on rgb(23,105,170)")
    assert first.style != second.style


def test_no_colour_no_escape() -> None:
    quiet = console(no_color=True)
    show([Explanation("Sea", 0.5, (("ship", 0.5),), ("seen",), "a ship")], quiet)
    shown = quiet.file.getvalue()  # type: ignore[attr-defined]
    assert shown == f"Sea: 0.500\n  {'ship':<25} 0.500\n  seen\n"


def test_the_text_cannot_steer_the_terminal() -> None:
    why = Explanation(HOSTILE, 0.5, ((HOSTILE, 0.5),), (HOSTILE,), f"[bold]{HOSTILE}\r\nship\tsail")
    assert coloured(why).plain == r"[bold]\x1b[31mred\u202e" + "\nship sail"
    assert "\x1b" not in repr(why)


def test_what_is_not_listed_is_added_up() -> None:
    words = tuple((f"word{at}", 0.5) for at in range(LISTED + 3))
    assert repr(Explanation("Sea", 0.5, words)).splitlines()[-1].split() == ["further", "words", "(3)", "1.500"]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A file of documents beside the models; the second has a number for an id."""
    file = tmp_path / "docs.csv"
    file.write_text("id,text\nd1,bread and butter\n0,a ship on the sea\nd3,a blue sky\n")
    return file


@pytest.mark.parametrize(
    ("document", "text"), [("d3", "a blue sky"), ("2", "a blue sky"), ("0", "a ship on the sea")], ids=str
)
def test_a_document_of_a_file_by_id_or_number(run: Run, docs: Path, document: str, text: str) -> None:
    code, out, _ = run("knn", "docs.csv", "--document", document, "--json", "why.json", "--html", "why.html")
    assert code == 0
    answer = json.loads(Path("why.json").read_text())
    assert answer["document"] == ("0" if "ship" in text else "d3")
    assert answer["labels"][0]["text"] == text
    assert f"why these labels of {answer['document']}" in Path("why.html").read_text()
    assert out == run("knn", "--text", text)[1]


def test_reading_options_and_what_the_model_remembers(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"title": "a ship", "body": "on the sea", "labels": ["x"]}\n')
    code, _, err = run("knn", "one.jsonl")
    assert code == 2
    assert "one.jsonl:1: no field 'text'" in err
    code, _, _ = run("knn", "one.jsonl", "--text-field", "title,body", "--json", "-")
    assert code == 0


def test_a_document_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "d7", "text": "a ship"}\n')))
    code, out, _ = run("knn", "-", "--json", "-")
    assert (code, json.loads(out)["document"]) == (0, "d7")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["docs.csv"], "docs.csv: there are 3 documents in it; say which with --document: an id such as d1"),
        (["docs.csv", "--document", "d9"], "there is no document d9 in it; give an id such as d1, or a number from 0"),
        (["docs.csv", "--document", "3"], "there is no document 3 in it"),
        (["docs.csv", "--document", "d1", "--json", "docs.csv"], "is read, and writing would replace it"),
        (["twice.csv", "--document", "d1"], "2 documents have the id d1"),
        (["features.jsonl", "--document", "0"], "its documents have no text to explain"),
    ],
)
def test_errors_about_the_document(run: Run, docs: Path, words: list[str], expected: str, tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("id,text\nd1,bread\nd1,a ship\n")
    (tmp_path / "features.jsonl").write_text('{"features": {"3": 1}, "labels": ["x"]}\n')
    before = docs.read_bytes()
    code, out, err = run("knn", *words)
    assert (code, out) == (2, "")
    assert expected in err.splitlines()[-1]
    assert docs.read_bytes() == before
