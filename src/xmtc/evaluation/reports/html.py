"""Templates to files: self-contained HTML pages, everything escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xmtc.corpus.languages import NAMES
from xmtc.corpus.sources import replacing
from xmtc.corpus.statistics import CorpusStatistics


def render(template: str, **values: Any) -> str:
    """Fill a template of this package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("xmtc.evaluation.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(template).render(**values)


def write_page(template: str, path: str | Path, **values: Any) -> None:
    """Fill a template of this package and write it."""
    with replacing(path) as out:
        out.write(render(template, **values).encode("utf-8", "replace"))


def write_corpus_page(statistics: CorpusStatistics, path: str | Path) -> None:
    """Write the figures of a corpus as one HTML page with plots."""
    from xmtc.evaluation.reports.plots import count_bars, rank_frequency

    labels, words = statistics.labels_per_document_histogram, statistics.words_per_document_histogram
    plots = [rank_frequency(statistics.rank_frequency)] if statistics.rank_frequency else []
    plots += [count_bars(labels, "Labels per document", "labels")] if labels else []
    plots += [count_bars(words, "Words per document", "words")] if words else []
    write_page("corpus.html.j2", path, statistics=statistics, plots=plots, language_names=NAMES)
