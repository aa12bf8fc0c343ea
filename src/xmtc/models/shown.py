"""How a model shows itself at a prompt and in a notebook: method, settings, what it learned from, how good it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xmtc.display import escaped, html_box, html_table, shortened
from xmtc.models.card import changed_settings, shown_metrics
from xmtc.models.training_facts import update_in_words

if TYPE_CHECKING:
    from xmtc.models.base import Model

FEW_METRICS = ("P@1", "nDCG@5", "PSP@5")  # in one line; a notebook shows those of the card


def text_of(model: Model) -> str:
    """A model on one line.

    >>> from xmtc.corpus.corpus import Corpus
    >>> from xmtc.models.knn import NearestNeighbours
    >>> model = NearestNeighbours(neighbours=3)
    >>> model
    knn(neighbours=3), not fitted
    >>> model.fit(Corpus.of(["red apple", "blue sky"], [["fruit"], ["weather"]]))
    knn(neighbours=3), fitted on corpus: 2 documents, 2 labels
    """
    settings = ", ".join(f"{key}={value}" for key, value in _settings(model).items())
    parts = [f"{model.name}({settings}), {_fitted_on(model)}"]
    for part, values in shown_metrics(model.metrics_):
        few = [f"{key} {values[key]:.2f}" for key in FEW_METRICS if key in values]
        parts += [f"{', '.join(few)} ({shortened(part)})"] if few else []
    return "; ".join(parts)


def html_of(model: Model) -> str:
    """A model as a notebook shows it."""
    rows = [[name, escaped(value)] for name, value in _facts(model)]
    metrics = dict(shown_metrics(model.metrics_))
    columns = list(dict.fromkeys(key for values in metrics.values() for key in values))
    cells = [
        [escaped(part), *(f"{values[key]:.2f}" if key in values else "–" for key in columns)]
        for part, values in metrics.items()
    ]
    figures = html_table(["percent", *columns], cells, numbers=True) if cells else ""
    return html_box(model.name, model.capabilities.summary, html_table([], rows), figures)


def _facts(model: Model) -> Iterator[tuple[str, str]]:
    settings = [f"{key}={value}" for key, value in _settings(model).items()]
    yield "settings", ", ".join(settings) or "the defaults"
    yield "training", _fitted_on(model)
    if "updates" in model.training_:
        yield "updates", shortened(update_in_words(model.training_["updates"]), 200)
    if model.labels_ is None:
        return
    tuned = ", a threshold for each label" if model.thresholds_ is not None else ""
    yield "scores", f"{model.score_kind.value}{tuned}"


def _fitted_on(model: Model) -> str:
    if model.labels_ is None:
        return "not fitted"
    corpus = model.training_.get("corpus")
    where = f" on {shortened(str(corpus))}" if corpus else ""
    return f"fitted{where}: {model.train_documents_:,} documents, {len(model.labels_):,} labels"


def _settings(model: Model) -> dict[str, str]:
    """The settings that are not the defaults; values that are long are cut."""
    usual = type(model.config).model_fields["seed"].default
    changed = changed_settings(model.config).items()
    return {key: shortened(str(value)) for key, value in changed if key != "seed" or value != usual}
