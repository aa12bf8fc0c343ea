"""What an operator can set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServeSettings:
    """The options of `xmtc serve`."""

    models: tuple[str, ...]
    """Model folders, or NAME=FOLDER where the folder's name is not to be the model's."""
    token: str | None = None
    """What a client must send as `Authorization: Bearer TOKEN`; None: nothing."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may read answers."""
    max_body: int = 4 << 20
    """Bytes of a request."""
    max_batch: int = 256
    """Documents of a request, and of what is predicted at once."""
    max_batch_characters: int = 1 << 20
    """Characters that are predicted at once; a longer document comes alone."""
    max_queue: int = 1024
    """Documents that wait for each model."""
    timeout: float = 30.0
    """Seconds that a request may wait and take, and that its body may take to arrive."""
    drain: float = 5.0
    """Seconds between the order to stop and the moment when nothing is accepted any more."""
    feedback: Path | None = None
    """File for the feedback of people, as JSON lines."""
    watch: bool = False
    """Whether a new model in a served folder is taken over."""
    allow_learn: bool = False
    """Whether clients may let a model learn from documents."""
    log_texts: bool = False
    """Whether the log has the texts of requests."""
    language: str = "en"
    """Language of the label names."""
