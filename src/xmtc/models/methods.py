"""The list that `xmtc.models()` returns: every method with what it does, takes and needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xmtc.display import escaped, html_box, html_table, text_table
from xmtc.extras import LIBRARIES, missing, require
from xmtc.models.registry import CATALOGUE, model_class

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


class Method(NamedTuple):
    """A method: its name for `xmtc.make`, and what it can do."""

    name: str
    summary: str
    input: str  # "text", "features", or "text or features"
    score: str  # "probability" or "ranking"; a model that was calibrated has "calibrated"
    explains: bool
    partial_fit: bool  # whether it learns from further documents
    device: str  # "cpu", or "cpu or gpu"
    extra: str | None  # what to install beside the core: pip install 'xmtc[EXTRA]'
    installed: bool


class Methods(list[Method]):
    """The methods, a record each; prints as a table."""

    def __repr__(self) -> str:
        return "\n".join(text_table(*self._table()))

    def _repr_html_(self) -> str:
        header, rows = self._table()
        cells = [[f"<b>{escaped(name)}</b>", *map(escaped, rest)] for name, *rest in rows]
        return html_box("xmtc", f"{len(self)} methods", html_table(header, cells))

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each method."""
        require("Methods.to_frame", "pandas")
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(Method._fields))

    def _table(self) -> tuple[list[str], list[list[str]]]:
        def yes(value: bool) -> str:
            return "yes" if value else "–"

        rows = [
            [
                method.name,
                method.input,
                method.score,
                yes(method.explains),
                yes(method.partial_fit),
                method.device,
                "–" if method.extra is None else method.extra if method.installed else f"{method.extra} (missing)",
                method.summary,
            ]
            for method in self
        ]
        return ["name", "input", "scores", "explains", "partial_fit", "device", "extra", "summary"], rows


def all_methods() -> Methods:
    """The methods of the catalogue.

    >>> methods = all_methods()
    >>> methods[1].name, methods[1].input, methods[1].explains, methods[1].installed
    ('knn', 'text or features', True, True)
    """
    found = Methods()
    for name in CATALOGUE:
        can = model_class(name).capabilities
        found.append(
            Method(
                name=name,
                summary=can.summary,
                input=" or ".join(sorted(can.input, reverse=True)),
                score=can.score.value,
                explains=can.explain,
                partial_fit=can.partial_fit,
                device="cpu or gpu" if can.gpu else "cpu",
                extra=can.extra,
                installed=can.extra is None or not missing(*LIBRARIES[can.extra]),
            )
        )
    return found
