"""How objects show themselves: text that is safe on a terminal, and HTML for notebooks.

The HTML loads nothing, and everything in it is escaped. A notebook's theme need not be that of the system, so no rule
asks for it: letters have the colour of the page, lines and grounds let it shine through, on light and on dark ones.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

LONGEST = 80  # characters of a name or a value where it stands among others

# Control characters, and those that turn the direction of writing, can rewrite what a terminal shows.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

STYLE = """<style>
.xmtc { overflow-x: auto; max-width: 70rem; line-height: 1.45; margin-bottom: .8em; }
.xmtc table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .4em 0; table-layout: auto;
  font-size: inherit; }
.xmtc tr, .xmtc th, .xmtc td { background: none; }
.xmtc th, .xmtc td { padding: .25em .8em .25em 0; text-align: left; vertical-align: top; overflow-wrap: break-word;
  white-space: normal; max-width: 42em; border: 0; border-bottom: 1px solid rgb(128 128 128 / 35%); }
.xmtc th { font-weight: 600; }
.xmtc .number { text-align: right; white-space: nowrap; }
.xmtc .soft, .xmtc small { opacity: .7; font-weight: 400; }
.xmtc ul { margin: .4em 0; padding-left: 1.2em; }
.xmtc .tag { display: inline-block; margin: .05em .3em .05em 0; padding: 0 .55em; border-radius: 1em;
  border: 1px solid rgb(128 128 128 / 45%); }
.xmtc .shaded { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.8; margin: .4em 0; }
.xmtc mark { color: inherit; padding: .15em 0; border-radius: .15em; }
.xmtc .against { text-decoration: underline dotted; text-underline-offset: .25em; }
.xmtc .bar { display: block; height: .8em; margin-top: .3em; border-radius: .15em; min-width: 1px; }
</style>"""


def printable(text: str) -> str:
    r"""The text on one line, with characters that would steer a terminal written as escapes.

    >>> printable("red\x1b[31m\nsky"), printable("東京 – Ünlü")
    ('red\\x1b[31m sky', '東京 – Ünlü')
    """
    return UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text.replace("\n", " "))


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text on one line, without what steers a terminal, cut where it is too long.

    >>> shortened("red\\n\\n  sky"), shortened("x" * 100, 5)
    ('red sky', 'xxxx…')
    """
    line = " ".join(text[: 4 * longest].split())  # a document may be a book
    return printable(line if len(line) <= longest and len(text) <= 4 * longest else line[: longest - 1] + "…")


def further(shown: int, total: int, what: str) -> list[str]:
    """A line that says how many things are not shown, if there are such.

    >>> further(10, 3600, "document"), further(10, 11, "document"), further(3, 3, "document")
    (['… 3,590 further documents'], ['… 1 further document'], [])
    """
    left_out = total - shown
    return [f"… {left_out:,} further {what}{'s' * (left_out > 1)}"] if left_out > 0 else []


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in plain text.

    >>> print("\\n".join(text_table(["name", "input"], [["knn", "text"]])))
    name  input
    ────  ─────
    knn   text
    """
    cells = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return [lines[0], "  ".join("─" * width for width in widths), *lines[1:]]


def escaped(text: str) -> str:
    """A text for HTML, in which a text that runs from right to left leaves its surroundings alone.

    >>> escaped("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    return f"<bdi>{plain(text)}</bdi>"


def plain(text: str) -> str:
    """A text for HTML as it is, also in an attribute; lone surrogates, which no page can hold, become '?'."""
    return html.escape(text.encode("utf-8", "replace").decode())


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A table of cells that are HTML; with `numbers`, all columns but the first are to the right.

    >>> html_table([], [["a", "b"]])
    '<table><tr><td>a</td><td>b</td></tr></table>'
    """

    def row(cells: Sequence[str], tag: str, scope: str = "") -> str:
        right = [' class="number"' if numbers and at else "" for at in range(len(cells))]
        found = (f"<{tag}{scope}{end}>{cell}</{tag}>" for cell, end in zip(cells, right, strict=True))
        return f"<tr>{''.join(found)}</tr>"

    head = row(header, "th", ' scope="col"') if header else ""
    return f"<table>{head}{''.join(row(cells, 'td') for cells in rows)}</table>"


def html_box(title: str, about: str, *parts: str, notes: Iterable[str] = ()) -> str:
    """An object as a notebook shows it: a title with a few words about it, parts that are HTML, and notes.

    >>> html_box("<knn>", "").removeprefix(STYLE)
    '<div class="xmtc"><div><b><bdi>&lt;knn&gt;</bdi></b></div></div>'
    """
    about = f' <span class="soft">{plain(about)}</span>' if about else ""
    below = "".join(f'<div class="soft">{plain(note)}</div>' for note in notes)
    return f'{STYLE}<div class="xmtc"><div><b>{escaped(title)}</b>{about}</div>{"".join(parts)}{below}</div>'
