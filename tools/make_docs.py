"""Make the parts of the documentation that the code knows best; `--check` only says whether they are up to date.

    python tools/make_docs.py [--check]

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. The rest of a page is written by hand.
The picture docs/images/report.png is not made here, since that takes a browser: `python tools/make_docs.py --report
FILE` writes the page of which it is a picture (1180 x 1430 pixels).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

import xmtc
from xmtc.cli.demo import SHOWN
from xmtc.cli.models import settings
from xmtc.data import demo_folder
from xmtc.evaluation.comparison import shown_cost
from xmtc.models.config import ModelConfig
from xmtc.models.registry import CATALOGUE, make, model_class

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.DOTALL)
SIDE_BY_SIDE = ROOT / "docs" / "results" / "side-by-side.json"
PRECISION = "P@1 / P@3 / P@5"
#: The corpora of the README's table; docs/results has all of them.
README_CORPORA = ("tibkat", "debtags", "cooking")
#: Models that share a page of docs/methods; the others have one of their own name.
FAMILIES = {
    **dict.fromkeys(("prior", "knn", "rocchio"), "neighbours"),
    **dict.fromkeys(("parabel", "bonsai", "dismec"), "linear"),
    **dict.fromkeys(("fastxml", "pfastrexml", "craftml"), "forests"),
    **dict.fromkeys(("proxml", "ppd_sparse", "pd_sparse"), "sparse_ovr"),
    **dict.fromkeys(("sleec", "annexml", "slice"), "local_embedding"),
    **dict.fromkeys(("xml_cnn", "bow_cnn"), "xml_cnn"),
    **dict.fromkeys(("x_transformer", "lightxml"), "transformers"),
    **dict.fromkeys(("mlc2seq", "sgm", "su4mlc"), "seq2seq"),
    "extremetext": "fasttext",
    **dict.fromkeys(("blend", "auto"), "ensembles"),
}
NUMBER = r"-?\d+\.\d+"


def main() -> int:
    """Write the pages anew, or check them; 1 if a check finds an old one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of date")
    parser.add_argument("--report", type=Path, help="write the report page of the demo, for the picture, and stop")
    options = parser.parse_args()
    if options.report:
        write_demo_report(options.report.resolve())
        return 0
    old = 0
    for page, is_old, content in pages():
        name = page.relative_to(ROOT)
        if not is_old:
            print(f"{name}: up to date")
        elif options.check:
            print(f"{name}: out of date; run `make docs`", file=sys.stderr)
            old += 1
        else:
            page.write_text(content, "utf-8")
            print(f"{name}: written")
    return int(old > 0)


def pages() -> Iterator[tuple[Path, bool, str]]:
    """(page, whether it is out of date, content as it should be) of every page that has generated parts."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text("utf-8")
        content, old = "", False
        at = 0
        for part in PART.finditer(text):
            body = f"\n{PARTS[part['name']]()}\n\n"
            # Of all generated parts only the demo's has measured numbers in it.
            old |= not alike(body, part["body"]) if part["name"] == "demo" else body != part["body"]
            content += text[at : part.start()] + part["begin"] + body + part["end"]
            at = part.end()
        if at:
            yield page, old, content + text[at:]


def alike(expected: str, found: str) -> bool:
    """Whether two texts are the same, but for white space and the last digit of decimals.

    Another processor may round a sum differently. In `expected`, three dots stand for anything.

    >>> alike("P@1 83.00 of ... documents", "P@1  83.01 of 400 documents")
    True
    >>> alike("P@1 83.00", "P@1 83.10"), alike("3 documents", "4 documents")
    (False, False)
    """
    expected, found = _squeezed(expected), _squeezed(found)
    pieces = re.split(rf"({NUMBER}|\.\.\.)", expected)
    pattern = "".join(
        ".*?" if piece == "..." else f"({NUMBER})" if re.fullmatch(NUMBER, piece) else re.escape(piece)
        for piece in pieces
    )
    match = re.fullmatch(pattern, found, re.DOTALL)
    if match is None:
        return False
    wanted = [piece for piece in pieces if re.fullmatch(NUMBER, piece)]
    return all(
        abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(a.partition(".")[2])
        for a, b in zip(wanted, match.groups(), strict=True)
    )


def _squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines() if line.strip())


def model_table() -> str:
    """What each model can do."""
    rows = []
    for name in CATALOGUE:
        can = model_class(name).capabilities
        inputs = " or ".join(sorted(can.input, reverse=True))
        flags = map(_yes, (can.explain, can.partial_fit))
        weights = ", ".join(sorted(can.weights)) or "no"
        rows.append((f"`{name}`", can.summary, inputs, can.score.value, *flags, weights, _yes(can.gpu)))
    return table(("model", "what it does", "input", "scores", "explains", "learns further", "weights", "GPU"), rows)


def model_list() -> str:
    """The README's list of models: a line each, with a link to the page of the method if there is one."""
    rows = []
    for name in CATALOGUE:
        page = f"docs/methods/{FAMILIES.get(name, name)}.md"
        shown = f"[`{name}`]({page})" if (ROOT / page).exists() else f"`{name}`"
        rows.append((shown, model_class(name).capabilities.summary))
    return table(("model", "what it does"), rows)


def hyper_parameters() -> str:
    """For each model a table of its hyper-parameters."""
    sections = []
    for name in CATALOGUE:
        config = make(name).config
        # A model without hyper-parameters of its own is described by what it does.
        own = type(config).__doc__ if type(config) is not ModelConfig else model_class(name).__doc__
        words = " ".join((own or "").strip().partition("\n\n")[0].split())
        rows = [(f"`{each.key}`", f"`{each.default}`", each.meaning, each.kind) for each in settings(config)]
        sections.append(
            f"### `{name}`\n\n{words}\n\n{table(('hyper-parameter', 'default', 'meaning', 'may be'), rows)}"
        )
    return "\n\n".join(sections)


def recipe_table() -> str:
    """The recipes that the repository has."""
    rows = []
    for path in sorted((ROOT / "recipes").rglob("*.yaml")):
        recipe = yaml.safe_load(path.read_text("utf-8"))
        if "model" not in recipe:  # the rows of a whole table, for `xmtc compare`
            continue
        name = path.relative_to(ROOT).as_posix()
        settings = ", ".join([*flat(recipe["set"]), *flat(recipe.get("grid", {}))]) or "the defaults"
        rows.append((f"[`{name}`](../../{name})", f"`{recipe['model']}`", settings))
    return table(("recipe", "model", "settings"), rows)


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Settings as `group.key=value`.

    >>> list(flat({"power": 2.0, "tfidf": {"min_df": 3}}))
    ['`power=2.0`', '`tfidf.min_df=3`']
    """
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"`{prefix}{key}={value}`"


def demo_table() -> str:
    """What `xmtc demo` shows: the first labels of some test documents, marked right or wrong."""
    train, test = xmtc.read(demo_folder(), part="train"), xmtc.read(demo_folder(), part="test")
    test = test.with_labels(train.labels)
    assert test.texts is not None
    model = make("knn").fit(train)
    rows = []
    for row in [row for row in range(len(test)) if test.id(row) in SHOWN]:
        top = model.predict(test[[row]], k=4)
        truth = set(test.labels_of(row))
        found = zip(top.ids[0].tolist(), top.scores[0].tolist(), strict=True)
        marked = [
            f"{'**' if at in truth else '~~'}{top.labels.path(at)}{'**' if at in truth else '~~'} {score:.2f}"
            for at, score in found
        ]
        rows.append((f"`{test.id(row)}`", test.texts[row].partition(". ")[0], ", ".join(marked)))
    return table(("package", "its description begins", "predicted tags"), rows)


def side_by_side() -> str:
    """All that `benchmarks/peers/programs.py` measured."""
    found = json.loads(SIDE_BY_SIDE.read_text("utf-8"))
    rows = [program(name, row, costs=True) for name, tools in found["corpora"].items() for row in tools.values()]
    header = (
        "corpus",
        "program",
        PRECISION,
        "nDCG@5",
        "PSP@5",
        "training",
        "batch, ms per document",
        "single, ms",
        "folder",
        "memory",
        "of its own",
    )
    return f"{table(header, rows)}\n\n{measured_when(found)}"


def beside_others() -> str:
    """Of some corpora our best and the best of the other programs, by nDCG@5."""
    found = json.loads(SIDE_BY_SIDE.read_text("utf-8"))
    rows = []
    for name in README_CORPORA:
        tools = found["corpora"][name]
        for ours in (True, False):
            known = [row for row in tools.values() if row["ours"] is ours and "problem" not in row]
            if known:
                rows.append(program(name, max(known, key=lambda row: row["nDCG@5"])))
    return f"{table(('corpus', 'program', PRECISION, 'nDCG@5', 'PSP@5', 'training'), rows)}\n\n{measured_when(found)}"


def program(corpus: str, row: dict[str, Any], costs: bool = False) -> tuple[str, ...]:
    """A row of these tables; a star if other work may have slowed it down."""
    title = row["title"] + (f", {row['budget']}" if "budget" in row else "")
    if "problem" in row:
        return (corpus, title, row["problem"], *("–",) * (8 if costs else 3))
    precision = " / ".join(f"{row[metric]:.2f}" for metric in PRECISION.split(" / "))
    star = "*" if row["busy"] else ""
    training = shown_cost("training", row["train s"]) + star
    cells = (corpus, title, precision, f"{row['nDCG@5']:.2f}", f"{row['PSP@5']:.2f}", training)
    if not costs:
        return cells
    sizes = (row[key] * 1e6 if key in row else None for key in ("model MB", "peak MB", "own MB"))
    times = (f"{row[key]:.2f}{star}" if key in row else "–" for key in ("batch ms", "single ms"))
    return (*cells, *times, *(shown_cost("size", size) for size in sizes))


def measured_when(found: dict[str, Any]) -> str:
    """What is below such a table: dates, machine, versions."""
    every = [row for tools in found["corpora"].values() for row in tools.values()]
    dates = sorted({row["date"] for row in every})
    about = dict(found["about"])
    versions = ", ".join(f"{name} {version}" for name, version in about.items() if name != "machine")
    star = " * Other programs ran at the same time." if any(row["busy"] for row in every) else ""
    return f"`make bench`, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}: {about['machine']}; {versions}.{star}"


def example_source() -> str:
    """The small model of examples/, as a block."""
    return f"```python\n{(ROOT / 'examples' / 'centroid_model.py').read_text('utf-8').rstrip()}\n```"


PARTS: dict[str, Callable[[], str]] = {
    "models": model_table,
    "model-list": model_list,
    "hyper-parameters": hyper_parameters,
    "recipes": recipe_table,
    "demo": demo_table,
    "side-by-side": side_by_side,
    "beside-others": beside_others,
    "centroid": example_source,
}


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _yes(can: bool) -> str:
    return "yes" if can else "no"


def write_demo_report(path: Path) -> None:
    """The report page of `knn` on the demo corpus; read by a short name, since the page shows it."""
    from xmtc.evaluation.reports.report import write_report

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        for part in demo_folder().iterdir():
            (Path(scratch) / part.name).write_bytes(part.read_bytes())
        os.chdir(scratch)
        try:
            test = xmtc.read("test.jsonl.gz")
            model = make("knn").fit(xmtc.read("train.jsonl.gz"))
            write_report(xmtc.evaluate(model, test), path, title="knn on Debian packages")
        finally:
            os.chdir(before)


if __name__ == "__main__":
    sys.exit(main())
