"""What Annif's REST API takes and answers, as Annif 1.4 describes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from xmtc.serve.schemas import Text

MAX_DOCUMENTS = 32  # of a batch
MAX_INT32 = 2**31 - 1


class ApiInfo(BaseModel):
    """What answers."""

    title: str
    version: str


class Vocabulary(BaseModel):
    """The labels of a model."""

    vocab_id: str
    languages: list[str]
    size: int | None
    loaded: bool


class VocabularyList(BaseModel):
    """The vocabularies of all models."""

    vocabs: list[Vocabulary]


class ProjectBackend(BaseModel):
    """The method of a model."""

    backend_id: str


class Project(BaseModel):
    """A model."""

    project_id: str
    name: str
    language: str
    backend: ProjectBackend
    vocab: Vocabulary | None
    vocab_language: str | None
    is_trained: bool | None
    modification_time: str | None


class ProjectList(BaseModel):
    """All models."""

    projects: list[Project]


class SuggestForm(BaseModel):
    """The form of `suggest`; further fields, which begin with `metadata_`, are taken and not used."""

    text: Text
    limit: Annotated[int, Field(ge=0, le=MAX_INT32)] = 10
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    language: str | None = None


class Document(BaseModel):
    """A document of a batch."""

    text: Text
    document_id: str | None = None
    metadata: dict[str, str] = {}


class SuggestBatch(BaseModel):
    """The body of `suggest-batch`."""

    documents: Annotated[list[Document], Field(max_length=MAX_DOCUMENTS)]


class Subject(BaseModel):
    """A subject that a document has."""

    uri: str
    label: str | None = None


class IndexedDocument(BaseModel):
    """A document with its subjects; one that lacks either is passed over."""

    text: Text | None = None
    metadata: dict[str, str] = {}
    subjects: list[Subject] | None = None


class SuggestionResult(BaseModel):
    """A subject that is suggested."""

    uri: str
    label: str
    notation: str | None = None
    score: float


class SuggestionResultList(BaseModel):
    """The subjects that are suggested for a text."""

    results: list[SuggestionResult]


class BatchSuggestionResult(SuggestionResultList):
    """The subjects that are suggested for a document of a batch."""

    document_id: str | None = None


class DetectLanguage(BaseModel):
    """A text and the languages that it may be in."""

    text: Text
    languages: Annotated[list[Annotated[str, Field(min_length=2, max_length=3)]], Field(min_length=1, max_length=5)]


class DetectedLanguage(BaseModel):
    """A language; None stands for all others."""

    language: str | None
    score: float


class DetectedLanguages(BaseModel):
    """The languages, the most likely first."""

    results: list[DetectedLanguage]


INDEXED_DOCUMENTS: TypeAdapter[Any] = TypeAdapter(list[IndexedDocument])
