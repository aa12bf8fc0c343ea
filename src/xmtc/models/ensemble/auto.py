"""`auto`: the best blend within a time budget: it tries methods and blends those that help.

What it does: holds out some documents and trains methods on the rest, one after the other (see
`xmtc.models.ensemble.search`), as long as the next one's estimated time is left; after each one the held-out documents
decide which methods to blend, and how (`xmtc.models.ensemble.stacking`). In the end the chosen methods are trained
again on all documents, for which time is reserved; a network for as many epochs as were best. `report_` says what was
done and why. Ctrl-C and the end of the time keep the best so far; at least one method is trained, however short the
time.

Where it differs from a paper: there is none. The choice depends on time, so that two runs can end with different
members; with the same members the same seed gives the same model.

Cost: `budget`, almost all of which it uses if the corpus is large.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import Field, PositiveFloat, field_validator

from xmtc.budget import seconds_in
from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, WeightKind
from xmtc.errors import ConfigError, MissingExtra
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.ensemble import search_space
from xmtc.models.ensemble.blend import Ensemble
from xmtc.models.ensemble.search import Search
from xmtc.models.registry import model_class
from xmtc.predictions import ScoreKind
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.vector_cache import sharing_vectors

REPORT = "report"


class AutoConfig(ModelConfig):
    """The time that training may take, and the methods to choose from."""

    budget: str = "10m"
    """How long training may take, such as 90s, 30m or 1h30m."""
    methods: tuple[str, ...] | None = Field(None, min_length=1)
    """The methods to choose from; null: all of them."""
    predict_ms: PositiveFloat | None = Field(None, allow_inf_nan=False)
    """Milliseconds that the model may take for a document, in batches on this machine; null: any."""
    model_mb: PositiveFloat | None = Field(None, allow_inf_nan=False)
    """Megabytes that the model's folder may take; null: any."""

    @field_validator("budget")
    @classmethod
    def _a_duration(cls, budget: str) -> str:
        seconds_in(budget)
        return budget

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: tuple[str, ...] | None) -> tuple[str, ...] | None:
        known = [candidate.name for candidate in search_space.CANDIDATES]
        for name in methods or ():
            if name not in known:
                raise ValueError(f"there is no method {name!r} to choose; there are: {'; '.join(known)}")
        return methods


class Auto(Ensemble):
    """The best blend of methods that can be trained in a given time.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 30, tags * 30)
    >>> auto = Auto(budget="1m", methods=["knn", "rocchio"]).fit(corpus)
    >>> auto.predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "auto"
    capabilities = Capabilities(
        summary="tries methods within a time budget, and blends those that help",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = AutoConfig
    config: AutoConfig

    report_: dict[str, Any]

    def check_installed(self) -> None:
        """A MissingExtra if every method to choose from needs one; else those that do are left out, which is said."""
        refused = []
        for candidate in search_space.CANDIDATES:
            if candidate.name in (self.config.methods or ()):
                try:
                    candidate.check_installed()
                    return
                except MissingExtra as error:
                    refused.append(error)
        if refused:
            first = refused[0]
            raise MissingExtra(f"auto: {first.what}", first.extra, first.library)

    def check_weights(self, kinds: Collection[WeightKind]) -> None:
        """A ConfigError if a method that is named cannot; without names, those that can are tried."""
        for candidate in search_space.CANDIDATES:
            if candidate.name in (self.config.methods or ()):
                try:
                    model_class(candidate.model)(**candidate.settings).check_weights(kinds)
                except ConfigError as error:
                    raise ConfigError(f"auto: {error}") from error

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        search = Search(self, corpus, valid, checkpoints)
        try:
            with sharing_vectors(checkpoints):
                search.run()
                search.refit()
        except KeyboardInterrupt:
            if not search.members:
                raise
            search.say("stopped; the best so far is kept")
        search.finish()

    def _save(self, folder: FolderWriter) -> None:
        super()._save(folder)
        folder.json(REPORT, self.report_)

    def _load(self, folder: FolderReader) -> None:
        super()._load(folder)
        self.report_ = folder.json(REPORT)
