"""`annif hyperopt`: the settings of a method that matter most, searched with the validation documents given to it.

Each trial trains on the documents of the last training and is measured with Annif's own metric.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import annif.eval
from annif.backend.hyperopt import HPObjective, HPRecommendation, HyperparameterOptimizer
from annif.exception import NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch
from optuna.trial import TrialState

from xmtc.corpus.corpus import Corpus
from xmtc.integrations.annif.settings import Settings, limit_of
from xmtc.recipes import put_value

if TYPE_CHECKING:
    from xmtc.integrations.annif.backend import XmtcBackend

PROBLEM = "problem"  # of a trial that failed


class Range(NamedTuple):
    """The values that a setting may take: whole numbers if its ends are; `log`: by orders of magnitude."""

    low: float
    high: float
    log: bool = True

    def suggest(self, trial: Any, name: str) -> float:
        """The value of a trial."""
        suggest = trial.suggest_int if isinstance(self.low, int) else trial.suggest_float
        value: float = suggest(name, self.low, self.high, log=self.log)
        return value


LINEAR = {"cost": Range(0.05, 5.0), "bias": Range(0.05, 1.0)}
#: method -> its settings to search
SPACES = {
    "dismec": LINEAR,
    "parabel": LINEAR,
    "bonsai": LINEAR,
    "knn": {"neighbours": Range(5, 200), "power": Range(0.5, 5.0)},
    "rocchio": {"names": Range(0.0, 2.0, log=False), "tfidf.min_df": Range(1, 5)},
    "fasttext": {"learning_rate": Range(0.2, 5.0), "epochs": Range(5, 50)},
}


class Search(NamedTuple):
    """What a trial needs."""

    backend: XmtcBackend
    settings: Settings
    train: Corpus
    analyzer: str
    batches: list[list[Any]]  # of validation documents
    metric: str


class Objective(HPObjective):  # type: ignore[misc]
    """One trial: train, suggest, measure."""

    @classmethod
    def objective(cls, trial: Any, args: Search) -> float:
        """The value of the metric."""
        values = deepcopy(args.settings.values)
        for name, each in SPACES[args.settings.method].items():
            put_value(values, name, each.suggest(trial, name))
        try:
            model = args.settings._replace(values=values).make().fit(args.train)
            ready = args.backend.ready_with(model, args.analyzer)
            limit = limit_of(args.backend.params)
            evaluation = annif.eval.EvaluationBatch(args.backend.project.subjects)
            for batch in args.batches:
                suggested = ready.suggest([document.text for document in batch], limit)
                evaluation.evaluate_many(suggested, [document.subject_set for document in batch])
            value: float = evaluation.results(metrics=[args.metric])[args.metric]
            return value
        except Exception as error:  # Annif drops it without a word
            trial.set_user_attr(PROBLEM, str(error))
            raise


class Optimizer(HyperparameterOptimizer):  # type: ignore[misc]
    """Annif's search over the settings of one method."""

    def __init__(self, backend: XmtcBackend, corpus: Any, metric: str, settings: Settings) -> None:
        super().__init__(backend, corpus, metric, Objective)
        self._settings = settings

    def _prepare(self, n_jobs: int = 1) -> Search:
        with self._backend.errors():
            train, analyzer = self._backend.cached_documents()
        transform = self._backend.project.transform
        batches = list(transform.transform_corpus(self._corpus).doc_batches)
        if not batches:
            raise self._unsupported("there are no validation documents")
        self._check_metric(batches[0])
        return Search(self._backend, self._settings, train, analyzer, batches, self._metric)

    def _check_metric(self, batch: list[Any]) -> None:
        """Measure something: else every trial would fail after its training."""
        subjects = self._backend.project.subjects
        evaluation = annif.eval.EvaluationBatch(subjects)
        nothing = SuggestionBatch.from_sequence([[]] * len(batch), subjects)
        evaluation.evaluate_many(nothing, [document.subject_set for document in batch])
        try:
            evaluation.results(metrics=[self._metric])
        except KeyError:
            raise self._unsupported(f"there is no metric {self._metric!r}; `annif eval` prints all of them") from None

    def _unsupported(self, problem: str) -> NotSupportedException:
        return NotSupportedException(problem, project_id=self._backend.project.project_id)

    def _postprocess(self, study: Any) -> HPRecommendation:
        if not any(trial.state == TrialState.COMPLETE for trial in study.trials):
            problems = [trial.user_attrs.get(PROBLEM, "a reason that is not known") for trial in study.trials]
            problem = f"no trial succeeded; the first failed with: {problems[0]}" if problems else "there was no trial"
            raise OperationFailedException(problem, project_id=self._backend.project.project_id)
        lines = [f"{name}={value:.4g}" for name, value in study.best_params.items()]
        return HPRecommendation(lines=lines, score=study.best_value)


def optimizer(backend: XmtcBackend, corpus: Any, metric: str, settings: Settings) -> Optimizer:
    """The search for a project; NotSupportedException for a method that has nothing to search here."""
    if settings.method not in SPACES:
        raise NotSupportedException(
            f"there are no settings of the method {settings.method} to search; there are for: {', '.join(SPACES)}",
            project_id=backend.project.project_id,
        )
    return Optimizer(backend, corpus, metric, settings)
