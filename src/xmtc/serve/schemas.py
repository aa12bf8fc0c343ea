"""What our own API takes and answers, as pydantic models: the OpenAPI description is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

MAX_K = 1000  # labels for a document, in one answer
MAX_ANSWER = 32_000  # labels of all documents of an answer
MAX_SEARCH = 100  # labels that a search lists
MAX_LABEL = 2000  # characters of a label's id or of a search
MAX_LABELS = 1000  # labels of a feedback


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL character (U+0000) in the text; remove it")
    return text


def _document_kind(document: Any) -> str | None:
    return "text" if isinstance(document, str) else "fields" if isinstance(document, dict) else None


#: A text; NUL characters come from broken conversions, and databases and C programs stop at them.
Text = Annotated[str, AfterValidator(_without_nul), Field(json_schema_extra={"pattern": "^[^\\u0000]*$"})]
Document = Annotated[
    Annotated[Text, Tag("text")] | Annotated[dict[str, Text], Tag("fields")],
    Discriminator(
        _document_kind,
        custom_error_type="document",
        custom_error_message="a text, or an object with text fields, was expected",
    ),
]
LabelId = Annotated[Text, Field(min_length=1, max_length=MAX_LABEL)]


class Request(BaseModel):
    """A request: an unknown field is an error, so that a mistyped option is not ignored."""

    model_config = ConfigDict(extra="forbid")


class PredictRequest(Request):
    """Documents to tag."""

    documents: Annotated[list[Document], Field(min_length=1)]
    """Texts, or objects with the fields that the model's training documents had (`text`, or `title` and `body`)."""
    k: Annotated[int, Field(ge=1, le=MAX_K, strict=True)] | None = None
    """Labels of each document, at most: 5 if not given, with a threshold 100."""
    threshold: Annotated[float, Field(allow_inf_nan=False)] | Literal["tuned"] | None = None
    """Leave out labels that score less: a number, or `tuned`, which is each label's own threshold."""
    language: Annotated[str, Field(max_length=35)] | None = None
    """Language of the label names; a model has names in one language."""


class PredictedLabel(BaseModel):
    """A label of a document."""

    id: str
    name: str
    score: float
    path: list[str]
    """Names from the root of the hierarchy to the label itself; without a hierarchy only its own."""


class DocumentLabels(BaseModel):
    """The labels of a document, best first."""

    labels: list[PredictedLabel]


class PredictResponse(BaseModel):
    """The labels of each document, in the order of the request."""

    model: str
    version: str
    score_kind: str
    results: list[DocumentLabels]


class ExplainRequest(Request):
    """A text and the label, by id or name, that is to be explained."""

    text: Text
    label: LabelId


class WordWeight(BaseModel):
    """How much a word speaks for the label (against it, if negative)."""

    word: str
    weight: float


class SpanWeight(BaseModel):
    """How much a part of the text, from one character to another, speaks for the label."""

    start: int
    end: int
    weight: float


class ExplainResponse(BaseModel):
    """Why the text gets the label, or not."""

    model: str
    version: str
    label: str
    name: str
    score: float
    text: str
    words: list[WordWeight]
    spans: list[SpanWeight]
    """Of a model with attention: the parts that it read."""
    places: list[SpanWeight]
    """What to shade: the spans, or wherever a word with a weight stands; none overlap."""
    evidence: list[str]


class CurvePoint(BaseModel):
    """Precision and recall that a threshold had on validation documents."""

    threshold: float
    precision: float
    recall: float


class ModelInfo(BaseModel):
    """A served model."""

    id: str
    title: str
    kind: str
    labels: int
    documents: int
    """Documents that it was trained on."""
    score_kind: str
    explains: bool
    learns: bool
    """Whether it can learn from further documents; by this server only if it was started with --allow-learn."""
    version: str
    """Changes with every change of the model folder; the number before the point counts trainings."""
    tuned: bool
    """Whether each label has a threshold of its own."""
    curve: list[CurvePoint] | None


class ModelList(BaseModel):
    """The served models."""

    models: list[ModelInfo]


class LabelInfo(BaseModel):
    """A label of a model."""

    id: str
    name: str
    path: list[str]
    count: int
    """Training documents that have it."""


class LabelList(BaseModel):
    """Labels that a search found."""

    labels: list[LabelInfo]


class FeedbackRequest(Request):
    """The labels that a text should have, and those that were predicted."""

    text: Text
    labels: Annotated[list[LabelId], Field(max_length=MAX_LABELS)]
    predicted: Annotated[list[LabelId], Field(max_length=MAX_LABELS)] | None = None


class FeedbackResponse(BaseModel):
    """The feedback was written down."""

    request_id: str


class FieldError(BaseModel):
    """What is wrong with a field of a request."""

    field: str
    reason: str


class Problem(BaseModel):
    """A refusal (RFC 9457, `application/problem+json`)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str | None = None
    errors: list[FieldError] | None = None
    """The fields that are wrong, of a request with bad input."""
