"""`xmtc explain`: the words of a text that speak for its labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from xmtc.cli.output import Device, printable, result_files, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from xmtc.models.explanation import Explanation

LISTED = 10  # words of each explanation
FAINT = 0.05  # words below this share of the strongest weight are not coloured
# White letters are legible on all three, on light and on dark terminals.
NEUTRAL, FOR, AGAINST = (112, 118, 124), (23, 105, 170), (194, 87, 12)


def explain(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    text: Annotated[str, typer.Option("--text", help="Text to explain the labels of, - for standard input.")],
    label: Annotated[str | None, typer.Option("--label", help="Key or name of a label; else the best ones.")] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="How many of the best labels, if none is named.")] = 3,
    html: Annotated[str | None, typer.Option("--html", help="Write a page with the shaded text and bars.")] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write all weights as JSON; - for stdout.")] = None,
    device: Device = "auto",
) -> None:
    """Show how much each word of a text speaks for its best labels, or for and against one that you name.

    Example: `xmtc explain tagger --text "a fast mail server" --label Email --html why.html`
    """
    from rich.console import Console

    from xmtc.models.registry import load

    with result_files(json, html) as stream:
        loaded = load(model, device=device)
        text = input_text(text)
        if label is not None:
            keys = [label]
        else:
            top = loaded.predict([text], k)
            keys = [top.labels.key(at) for at in top.ids[0].tolist() if at >= 0]
        found = [loaded.explain(text, key) for key in keys]
        found = [replace(why, text=why.text or text) for why in found]
        if json is not None:
            assert loaded.labels_ is not None
            named = [loaded.labels_.key(loaded.labels_.find(key)) for key in keys]
            labels = [{"label": key, **why.to_json()} for key, why in zip(named, found, strict=True)]
            write_json(json, {"labels": labels})
        if html is not None:
            from xmtc.evaluation.reports.explanation_page import write_explanation_page

            write_explanation_page(found, html, title=f"{loaded.title}: why these labels")
        show(found, Console(file=stream, highlight=False))


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


def show(explanations: list[Explanation], console: Console) -> None:
    """Print explanations: each with the text coloured by it where there are colours, then its strongest words."""
    from rich.text import Text

    colours = console.color_system is not None and not console.no_color
    for place, why in enumerate(explanations):
        if place:
            console.print()
        if colours:
            console.print(coloured(why))
        lines = Text(summary(why))
        if colours:
            lines.stylize("bold", 0, lines.plain.find("\n"))
        console.print(lines, soft_wrap=True)
    if not explanations:
        console.print("no label")


def summary(why: Explanation) -> str:
    """The explanation in a few lines, with its strongest words only."""
    rest = [weight for _, weight in why.words[LISTED:]]
    words = [(printable(word), weight) for word, weight in why.words[:LISTED]]
    words += [(f"further words ({len(rest):,})", sum(rest))] if rest else []
    evidence = tuple(map(printable, why.evidence))
    return str(replace(why, label=printable(why.label), words=tuple(words), evidence=evidence))


def coloured(why: Explanation) -> Text:
    """The text with coloured words: the stronger the weight, the stronger the colour; another one for words against."""
    from rich.text import Text

    from xmtc.evaluation.reports.explanation_page import shaded

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
