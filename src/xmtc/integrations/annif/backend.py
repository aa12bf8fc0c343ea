"""The backend: train, learn, suggest and hyperopt of Annif with a method of xmtc.

Kept in the folder of the project: `xmtc-model`, an ordinary model folder, and `xmtc-train.parquet`, the documents of
the last training, for `annif train --cached` and `annif hyperopt`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import annif.analyzer
import numpy as np
from annif.backend.backend import AnnifLearningBackend
from annif.backend.hyperopt import AnnifHyperoptBackend
from annif.exception import (
    ConfigurationException,
    NotInitializedException,
    NotSupportedException,
    OperationFailedException,
)
from annif.suggestion import SuggestionBatch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import read, write
from xmtc.corpus.sparse import make_csr
from xmtc.errors import BadModelFolder, ConfigError, XmtcError
from xmtc.integrations.annif.corpus import ANALYZER, Analyze, analysis, as_it_is, documents_of, label_set
from xmtc.integrations.annif.settings import DEFAULTS, Settings, limit_of, settings_of
from xmtc.models.base import Model
from xmtc.models.registry import load
from xmtc.models.training_facts import some

MODEL, TRAINING_DOCUMENTS = "xmtc-model", "xmtc-train.parquet"  # Annif neither counts nor uploads what has "-train"
ANNIF_ANALYZER = "annif_analyzer"  # the fact about training that says what made the words of the texts
#: A tenth of the documents is held out to calibrate scores, at most so many; if that is fewer than these, none.
MAX_HELD_OUT, FEWEST_HELD_OUT = 1000, 20


@dataclass(frozen=True, eq=False)
class Ready:
    """A trained model that is ready to suggest: what reads its texts, and where its labels are in the vocabulary."""

    model: Model
    analyze: Analyze
    subjects: NDArray[np.int64]  # the subject of each label; -1 if the vocabulary has it no more
    vocabulary_size: int

    def suggest(self, texts: Sequence[str], limit: int) -> SuggestionBatch:
        """The best subjects of each text, with scores above 0 and up to 1."""
        words = [self.analyze(text) for text in texts]
        # A text without a word says nothing about its subjects, also where a method would list the frequent ones.
        with_words = np.array([bool(text.strip()) for text in words], bool)
        labels = self.model._fitted()
        gone = [labels.key(at) for at in np.flatnonzero(self.subjects < 0).tolist()]
        if len(gone) == len(labels):
            return SuggestionBatch(csr_array((len(texts), self.vocabulary_size), dtype=np.float32))
        top = self.model.predict(words, limit, exclude=gone or None).unit_scores()
        found = top.keep((top.scores > 0) & with_words[:, None]).to_csr()
        places = self.subjects[found.indices]
        suggested = make_csr(found.data, places, found.indptr, (len(texts), self.vocabulary_size))
        suggested.sort_indices()
        return SuggestionBatch(suggested)


class XmtcBackend(AnnifLearningBackend, AnnifHyperoptBackend):  # type: ignore[misc]
    """A method of xmtc as a backend of Annif."""

    name = "xmtc"
    DEFAULT_PARAMETERS: Mapping[str, Any] = DEFAULTS

    _ready: Ready | None = None

    @property
    def model_folder(self) -> Path:
        """Where the model is kept."""
        return Path(self.datadir) / MODEL

    @property
    def _model_file_paths(self) -> list[str]:
        """The files that make the project a trained one, and say when."""
        return [str(path) for path in self.model_folder.glob("*")]

    def initialize(self, parallel: bool = False) -> None:
        """Load the model, if that was not done before."""
        if self._ready is None:
            self._ready = self._made_ready(self._loaded())

    def get_hp_optimizer(self, corpus: Any, metric: str) -> Any:
        """What `annif hyperopt` runs."""
        from xmtc.integrations.annif.hyperopt import optimizer

        with self.errors():
            settings = settings_of(self.params)
            settings.make()
        return optimizer(self, corpus, metric, settings)

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        self._limit_threads(jobs)
        with self.errors():
            settings = settings_of(params)
            model = settings.make()
            if corpus == "cached":
                documents, analyzer = self.cached_documents()
                self.info(f"training documents of the last run are reused: {len(documents):,}")
            else:
                analyzer = self.project.analyzer_spec or ""
                documents = self._read(corpus, analyzer)
                write(documents, Path(self.datadir) / TRAINING_DOCUMENTS)
            self._fit(model, documents, settings)
            model.training_ = {**model.training_, **({ANNIF_ANALYZER: analyzer} if analyzer else {})}
            model.save(self.model_folder)
        self._ready = self._made_ready(model)

    def _fit(self, model: Model, documents: Corpus, settings: Settings) -> None:
        """Train a model and, if the settings say so, calibrate its scores on documents held out of the training."""
        held_out = None
        size = min(MAX_HELD_OUT, len(documents) // 10)
        if settings.calibrates(model) and size >= FEWEST_HELD_OUT:
            documents, held_out = documents.split(size, seed=model.config.seed)
        elif settings.calibrates(model):
            self.info("too few documents to calibrate scores: they order subjects, and mean no more than that")
        beside = f", scores calibrated on {len(held_out):,} more" if held_out is not None else ""
        self.info(f"training {model.name} on {some(len(documents), 'document')}{beside}")
        model.fit(documents)
        if held_out is not None:
            model.calibrate(held_out, "platt")

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        model = self._loaded()  # anew, so that the one in use stays as it is until this one is saved
        if not model.capabilities.partial_fit:
            raise NotSupportedException(
                f"the method {model.name} cannot learn from further documents; train it again with all of them",
                project_id=self.project.project_id,
            )
        with self.errors():
            model.partial_fit(self._read(corpus, model.training_.get(ANNIF_ANALYZER, "")))
            model.save(self.model_folder)
        self._ready = self._made_ready(model)

    def _suggest_batch(self, documents: Sequence[Any], params: dict[str, Any]) -> SuggestionBatch:
        assert self._ready is not None
        with self.errors():
            return self._ready.suggest([document.text for document in documents], limit_of(params))

    def cached_documents(self) -> tuple[Corpus, str]:
        """The documents of the last training, and the analyzer that made their words ("": none)."""
        path = Path(self.datadir) / TRAINING_DOCUMENTS
        if not path.exists():
            problem = f"there are no training documents of an earlier run ({path}); train with documents first"
            raise NotInitializedException(problem, project_id=self.project.project_id)
        documents = read(path, label_set=self._labels(), keep=(ANALYZER,))
        return documents, documents.fields[ANALYZER][0]

    def ready_with(self, model: Model, analyzer: str) -> Ready:
        """A model that is ready to suggest."""
        labels = model._fitted()
        subjects = [self.project.subjects.by_uri(key, warnings=False) for key in labels.keys]
        places = np.array([-1 if at is None else at for at in subjects], np.int64)
        return Ready(model, self._analysis(analyzer), places, len(self.project.subjects))

    def _made_ready(self, model: Model) -> Ready:
        with self.errors():
            ready = self.ready_with(model, model.training_.get(ANNIF_ANALYZER, ""))
        if gone := np.count_nonzero(ready.subjects < 0):
            self.info(f"labels of the model that the vocabulary has no more, which are left out: {gone:,}")
        return ready

    def _loaded(self) -> Model:
        if not self.is_trained:
            raise NotInitializedException(f"model {self.model_folder} not found", project_id=self.project.project_id)
        with self.errors():
            return load(self.model_folder)

    def _read(self, corpus: Any, analyzer: str) -> Corpus:
        """Annif's documents as a corpus; those without a known subject, or without a word, are left out and counted."""
        project = self.project
        name = f"Annif project {project.project_id}"
        documents, left_out = documents_of(
            corpus.documents, project.subjects, self._labels(), self._analysis(analyzer), analyzer, name
        )
        if documents is None:
            among = f": none of {some(left_out, 'document')} has a word and a subject of the vocabulary"
            problem = "there are no documents to learn from" + (among if left_out else "")
            raise NotSupportedException(problem, project_id=project.project_id)
        if left_out:
            self.info(f"documents without a word or without a subject of the vocabulary, left out: {left_out:,}")
        return documents

    def _labels(self) -> Any:
        return label_set(self.project.subjects, self.project.vocab_lang)

    @staticmethod
    def _analysis(analyzer: str) -> Analyze:
        if not analyzer:
            return as_it_is
        try:
            return analysis(annif.analyzer.get_analyzer(analyzer).tokenize_words)
        except ValueError as error:
            raise ConfigError(f"analyzer={analyzer}: {error}") from error

    def _limit_threads(self, jobs: int) -> None:
        """Use so many cores; 0: all. Numba reads the number once, when it is imported."""
        if jobs > 0 and "numba" not in sys.modules:
            os.environ["NUMBA_NUM_THREADS"] = str(min(jobs, os.cpu_count() or 1))
        elif jobs > 0:
            self.info(f"--jobs {jobs} comes too late in this process; set NUMBA_NUM_THREADS={jobs} before it starts")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of xmtc as those of Annif, which its command line and its REST API tell in a sentence."""
        try:
            yield
        except XmtcError as error:
            kind = OperationFailedException
            if isinstance(error, ConfigError):
                kind = ConfigurationException
            elif isinstance(error, BadModelFolder):
                kind = NotInitializedException
            raise kind(str(error), project_id=self.project.project_id) from error
