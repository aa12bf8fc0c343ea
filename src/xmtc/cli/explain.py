"""`xmtc explain`: the words of a text that speak for its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from xmtc.cli.output import Device, printable, result_files, write_json
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from xmtc.corpus.corpus import Corpus
    from xmtc.models.explanation import Explanation

FAINT = 0.05  # words below this share of the strongest weight are not coloured
# White letters are legible on all three, on light and on dark terminals.
NEUTRAL, FOR, AGAINST = (112, 118, 124), (23, 105, 170), (194, 87, 12)


@with_reading
def explain(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    documents: Annotated[str | None, typer.Argument(help="File in any format with the document to explain.")] = None,
    document: Annotated[
        str | None, typer.Option("--document", help="Which document of the file: its id, or its number from 0.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", help="Explain the labels of this text, in place of a file; - for stdin.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Key or name of a label; else the best ones.")] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="How many of the best labels, if none is named.")] = 3,
    html: Annotated[str | None, typer.Option("--html", help="Write a page with the shaded text and bars.")] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write all weights as JSON; - for stdout.")] = None,
    device: Device = "auto",
    reading: Reading = Reading(),
) -> None:
    """Show which words of a text speak for its labels.

    For its best labels, or for and against one that you name.

    Example: xmtc explain tagger --text "a fast mail server" --label Email --html why.html
    """
    from rich.console import Console

    from xmtc.corpus.overwriting import check_not_input
    from xmtc.errors import ConfigError
    from xmtc.models.explanation import Explanations
    from xmtc.models.registry import load

    if (documents is None) == (text is None):
        raise ConfigError("give a document to explain: a file of documents, or --text, one of them")
    if document is not None and documents is None:
        raise ConfigError("--document chooses from a file of documents; name the file")
    for path in filter(None, (json, html)):
        check_not_input(path, documents)
    with result_files(json, html) as stream:
        loaded = load(model, device=device)
        if documents is not None:
            corpus = reading.for_model(loaded).read(documents, "test", unlabelled=True)
            id, text = chosen(corpus, document)
            about = {"document": id}
        else:
            assert text is not None
            text, about = input_text(text), {}
        found = Explanations([loaded.explain(text, label)]) if label is not None else loaded.explain(text, k=k)
        if json is not None:
            write_json(json, {**about, "labels": [why.to_json() for why in found]})
        if html is not None:
            from xmtc.evaluation.reports.explanation_page import write_explanation_page

            of = f" of {about['document']}" if about else ""
            write_explanation_page(found, html, title=f"{loaded.title}: why these labels{of}")
        show(found, Console(file=stream, highlight=False))


def chosen(corpus: Corpus, document: str | None) -> tuple[str, str]:
    """(id, text) of the document that is asked for: by its id, else by its number; of one document, none need be named.

    >>> from xmtc.corpus.corpus import Corpus
    >>> chosen(Corpus.of(["red fruit", "blue sky"]), "1")
    ('1', 'blue sky')
    """
    from xmtc.errors import BadInput

    if corpus.texts is None:
        raise BadInput(corpus.name, None, "its documents have no text to explain", "give documents with texts")
    if document is None:
        if len(corpus) > 1:
            remedy = f"say which with --document: an id such as {corpus.id(0)}, or a number from 0"
            raise BadInput(corpus.name, None, f"there are {len(corpus):,} documents in it", remedy)
        return corpus.id(0), corpus.texts[0]
    same = [] if corpus.ids is None else [at for at, id in enumerate(corpus.ids) if id == document]
    if len(same) > 1:
        raise BadInput(
            corpus.name, None, f"{len(same):,} documents have the id {document}", "give them ids of their own"
        )
    if not same and document.isdecimal() and int(document) < len(corpus):
        same = [int(document)]
    if not same:
        remedy = f"give an id such as {corpus.id(0)}, or a number from 0 to {len(corpus) - 1:,}"
        raise BadInput(corpus.name, None, f"there is no document {document} in it", remedy)
    return corpus.id(same[0]), corpus.texts[same[0]]


def input_text(text: str) -> str:
    """The text that `--text` gives or, for `-`, standard input; an error if there is none.

    >>> input_text("a fast mail server")
    'a fast mail server'
    """
    from xmtc.corpus.sources import BadLine, Source, decode
    from xmtc.errors import ConfigError

    raw = b"".join(Source("-").blocks()) if text == "-" else text.encode("utf-8", "surrogateescape")
    try:
        text = decode(raw).rstrip()
    except BadLine as error:
        raise ConfigError(f"--text: {error.problem}; convert it to UTF-8") from error
    if not text:
        raise ConfigError("--text: the text is empty; give one in quotes, or - to read it from standard input")
    return text


def show(explanations: Sequence[Explanation], console: Console) -> None:
    """Print explanations: each with the text coloured by it where there are colours, then its strongest words."""
    from rich.text import Text

    colours = console.color_system is not None and not console.no_color
    for place, why in enumerate(explanations):
        if place:
            console.print()
        if colours:
            console.print(coloured(why))
        lines = Text(repr(why))
        if colours:
            lines.stylize("bold", 0, lines.plain.find("\n"))
        console.print(lines, soft_wrap=True)
    if not explanations:
        console.print("no label")


def coloured(why: Explanation) -> Text:
    """The text with coloured words: the stronger the weight, the stronger the colour; another one for words against."""
    from rich.text import Text

    from xmtc.models.shading import shaded

    text = Text()
    for piece in shaded(why):
        lines = piece.text.replace("\r\n", "\n").replace("\t", " ").split("\n")
        text.append("\n".join(map(printable, lines)), style_of(piece.shade))
    return text


def style_of(shade: float) -> str:
    """The rich style for a shade between -1 (strongest against) and 1 (strongest for).

    >>> style_of(0.01), style_of(1.0), style_of(-1.0)
    ('', '#ffffff on rgb(23,105,170)', '#ffffff on rgb(194,87,12)')
    """
    if abs(shade) < FAINT:
        return ""
    full = FOR if shade > 0 else AGAINST
    mixed = [round(grey + (colour - grey) * abs(shade)) for grey, colour in zip(NEUTRAL, full, strict=True)]
    return f"#ffffff on rgb({','.join(map(str, mixed))})"
