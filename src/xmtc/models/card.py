"""The model card: the README.md of a model folder, for people and for the Hub.

It says what the model is, what it learned from, how good it is, what its scores mean and how to use it. The program
never reads it. The same model has the same card: it holds no times and no places. Names of labels and corpora may come
from anywhere, so they are escaped: they cannot add links, HTML or metadata to the page.
"""

from __future__ import annotations

import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ValidationError

from xmtc.corpus.labels import LabelSet
from xmtc.predictions import ScoreKind
from xmtc.storage import library_versions

if TYPE_CHECKING:
    from xmtc.models.base import Model

LONGEST_NAME = 80
MOST_FREQUENT = 10  # labels that are shown
RARE = 5  # documents: labels with fewer are called rare
SHOWN = re.compile(r"(P|nDCG|PSP)@\d+|micro-F1|macro-F1|ECE@5")  # metrics; the manifest has all of them
ANYWHERE = "path/to/this/folder"

SCORES = {
    ScoreKind.PROBABILITY: "A score lies between 0 and 1 by construction. It was not compared with data: calibrate the "
    "model before you read it as a probability.",
    ScoreKind.CALIBRATED: "A score is a calibrated probability: of the labels with a score of 0.8, about 8 in 10 are "
    "relevant, for documents like those it was calibrated on.",
    ScoreKind.RANKING: "Only the order of the scores means something. They are no probabilities, and scores of "
    "different documents need not be comparable: calibrate the model before you set a threshold.",
}

PAGE = """\
---
{metadata}---

# {title}

An extreme multi-label text classifier, made with `xmtc`: it tags a document with the best few of {labels:,} labels.

* Method: `{method}`, {summary}{citation}
* Input: {input}
* Trained on {documents:,} documents{corpus} with {seen:,} different labels

## Use

```python
import xmtc

model = xmtc.load("{place}")
{example}
```

```sh
xmtc predict {place} docs.csv --k 5 --table
```

Loading runs no code from this folder: it has plain arrays, and `manifest.json` has their checksums.

## Figures

{figures}

## Scores and thresholds

{scores} {thresholds}

## Labels

{rare}

| most frequent labels | documents |
|---|---|
{frequent}

## Limits

* It knows the {labels:,} labels of its training documents and never answers with another one.
* Documents in other languages, of another kind or from another time than its training documents get worse labels, and
  no warning.
* Labels that few training documents have are found less often; a figure for all labels hides that.

## Training

Settings that differ from the defaults of `{method}`:

```json
{settings}
```

Made with {versions}.
"""


def card_of(model: Model, facts: Mapping[str, Any], place: str = ANYWHERE) -> str:
    """The card of a fitted model; `facts` are what its manifest says beside the settings, `place` where it is loaded.

    >>> from xmtc.corpus.corpus import Corpus
    >>> from xmtc.models.prior import Prior
    >>> model = Prior().fit(Corpus.of(["one", "two"], [["<b>a"], ["<b>a"]]))
    >>> print(card_of(model, {}).split("## Figures")[1].split("## Scores")[0].strip())
    None were measured when this model was saved. `xmtc evaluate` measures them on documents with labels.
    """
    labels = model._fitted()
    assert labels.counts is not None
    training = model.training_
    metrics = dict(shown_metrics(facts.get("metrics", {})))
    rare, empty = int(np.count_nonzero((labels.counts > 0) & (labels.counts < RARE))), int((labels.counts == 0).sum())
    return PAGE.format(
        metadata=_yaml(_metadata(model, metrics)),
        title=f"{model.name}: {len(labels):,} labels",
        method=model.name,
        summary=model.capabilities.summary,
        citation=_citation(model),
        input=escaped(str(training.get("input", "texts"))),
        documents=model.train_documents_,
        corpus=f" of {escaped(str(training['corpus']))}" if training.get("corpus") else "",
        seen=int(np.count_nonzero(labels.counts)),
        labels=len(labels),
        place=place,
        example=_example(model),
        figures=_figures(metrics),
        scores=SCORES[model.score_kind],
        thresholds=_thresholds(model),
        rare=f"{rare:,} labels have fewer than {RARE} training documents, {empty:,} have none.",
        frequent="\n".join(_frequent(labels)),
        settings=json.dumps(changed_settings(model.config), indent=1, sort_keys=True),
        versions=", ".join(f"{library} {version}" for library, version in library_versions().items()),
    )


def escaped(text: str) -> str:
    r"""A name as Markdown shows it literally: one line, without links, HTML, tables or control characters.

    >>> print(escaped("a|b\n<script> [x](http://y) *!*"))
    a\|b &lt;script&gt; \[x\]\(http\:\/\/y\) \*\!\*
    >>> print(escaped("x" * 100)[-3:], escaped("\u202eevil\udcff"))
    xx… ?evil?
    """
    entities = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+.!|~:@$^=/\"])", r"\\\1", entities)


def _one_line(text: str) -> str:
    """A name, cut short, without line breaks and what is not Unicode or steers how a text is shown."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"
    return "".join("?" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") else char for char in line)


def _yaml(value: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, width=10_000)


def _metadata(model: Model, metrics: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The front matter that the Hub reads."""
    found: dict[str, Any] = {
        "library_name": "xmtc",
        "pipeline_tag": "text-classification",
        "tags": ["xmtc", model.name, "multi-label", "extreme-classification"],
    }
    if metrics:
        name = _one_line(str(model.training_.get("corpus") or "corpus"))
        results = [
            {
                "task": {"type": "text-classification", "name": "Extreme multi-label text classification"},
                "dataset": {"type": "custom", "name": name, "split": _one_line(part)},
                "metrics": [{"type": key, "name": key, "value": value} for key, value in values.items()],
            }
            for part, values in metrics.items()
        ]
        found["model-index"] = [{"name": model.name, "results": results}]
    return found


def shown_metrics(stored: Any) -> Iterator[tuple[str, dict[str, float]]]:
    """Part of the documents -> metric -> percent: the usual metrics, as far as they are numbers."""
    for part, values in stored.items() if isinstance(stored, Mapping) else ():
        if isinstance(values, Mapping):
            numbers = {
                str(key): round(float(value), 2)
                for key, value in values.items()
                if SHOWN.fullmatch(str(key)) and isinstance(value, (int, float)) and math.isfinite(value)
            }
            if numbers:
                yield str(part), numbers


def _figures(metrics: Mapping[str, Mapping[str, float]]) -> str:
    if not metrics:
        return "None were measured when this model was saved. `xmtc evaluate` measures them on documents with labels."
    rows = [
        f"| {escaped(part)} | {escaped(key)} | {value:.2f} |"
        for part, values in metrics.items()
        for key, value in values.items()
    ]
    warning = "Choices such as thresholds may have been made on validation documents: figures for them are optimistic."
    return "\n".join([warning, "", "| documents | metric | percent |", "|---|---|---|", *rows])


def _citation(model: Model) -> str:
    """The paper that the docstring of the method's module begins with, after its first line."""
    module = sys.modules[type(model).__module__]
    paragraphs = [" ".join(part.split()) for part in (module.__doc__ or "").split("\n\n")]
    if len(paragraphs) > 1 and not paragraphs[1].startswith(("What ", "Cost")):
        return f"\n* Reference: {paragraphs[1]}"
    return ""


def _example(model: Model) -> str:
    if model.training_.get("input", "texts") == "texts":
        return 'print(model.predict(["a text to tag"], k=5).names())'
    return "print(model.predict(corpus, k=5).names())  # a corpus with the same features as the training documents"


def _thresholds(model: Model) -> str:
    if model.thresholds_ is None:
        return "It has no thresholds of its own."
    low, middle, high = np.quantile(model.thresholds_, [0, 0.5, 1])
    return (
        "It has a threshold for each label, chosen for F1 on validation documents "
        f"({low:.3f} to {high:.3f}, in the middle {middle:.3f}): `--threshold tuned`."
    )


def _frequent(labels: LabelSet) -> Iterator[str]:
    assert labels.counts is not None
    for label in np.argsort(-labels.counts, kind="stable")[:MOST_FREQUENT].tolist():
        yield f"| {escaped(labels.name(label))} | {labels.counts[label]:,} |"


def changed_settings(config: BaseModel) -> dict[str, Any]:
    """The settings that are not the defaults, and the seed, by their paths."""
    own = dict(_flat(config.model_dump(mode="json")))
    try:
        usual = dict(_flat(type(config)().model_dump(mode="json")))
    except ValidationError:  # a method without defaults for all of its settings
        usual = {}
    return {key: value for key, value in own.items() if key == "seed" or key not in usual or usual[key] != value}


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
