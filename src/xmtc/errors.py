"""Errors that a user can cause and fix; the command line prints them as one line and exits with 2."""

from __future__ import annotations

from pathlib import Path


class XmtcError(Exception):
    """Something the user can fix; the message says what is wrong and what to do.

    >>> str(XmtcError("the corpus has no labels; name the column with labels='tags'"))
    "the corpus has no labels; name the column with labels='tags'"
    """


class BadInput(XmtcError):
    """A file that cannot be used as it is, with the line where known.

    >>> print(BadInput("docs.jsonl", 3, "not JSON: unexpected end", "mend the line or pass --skip-bad"))
    docs.jsonl:3: not JSON: unexpected end; mend the line or pass --skip-bad
    """

    def __init__(self, path: str | Path, line: int | None, problem: str, remedy: str = "") -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}" + (f"; {remedy}" if remedy else ""))
        self.path = str(path)
        self.line = line
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[BadInput], tuple[str, int | None, str, str]]:
        # By default an exception is pickled as its message alone, from which it cannot be rebuilt in another process.
        return type(self), (self.path, self.line, self.problem, self.remedy)


class ConfigError(XmtcError):
    """An unknown or impossible hyper-parameter or option."""


class BadModelFolder(XmtcError):
    """A model folder that is missing, altered, truncated, newer than this program or not a model at all."""


class HubError(BadModelFolder):
    """A model that cannot be downloaded from the Hub, or uploaded to it."""


class NotFitted(XmtcError):
    """A model that is not fitted cannot predict, explain or save."""


class OutOfMemory(XmtcError):
    """Training would need more memory than is available; raised before it starts."""


class ClusterError(XmtcError):
    """A cluster that cannot be reached or used, or that could not finish the work."""


class MissingExtra(ConfigError):
    """What was asked for needs a library that is not installed; the message is the command that installs it.

    >>> print(MissingExtra("attentionxml", "neural", "torch"))
    attentionxml needs torch; install it with: pip install 'xmtc[neural]'
    """

    def __init__(self, what: str, extra: str, library: str = "an optional dependency") -> None:
        super().__init__(f"{what} needs {library}; install it with: pip install 'xmtc[{extra}]'")
        self.what = what
        self.extra = extra
        self.library = library

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str]]:
        return type(self), (self.what, self.extra, self.library)
