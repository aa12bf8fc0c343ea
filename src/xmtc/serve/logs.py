"""The log: one JSON object a line on standard error, also for what uvicorn says."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

logger = logging.getLogger("xmtc.serve")


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what `log` was given beside the message becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def log(event: str, level: int = logging.INFO, exc_info: BaseException | None = None, **fields: Any) -> None:
    """Write a line about an event."""
    if logger.isEnabledFor(level):
        logger.log(level, event, exc_info=exc_info, extra={"fields": fields})


def log_to_stderr() -> None:
    """Send our log and uvicorn's to standard error, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("xmtc.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        target = logging.getLogger(name)
        target.handlers[:] = [handler]
        target.setLevel(level)
        target.propagate = False
