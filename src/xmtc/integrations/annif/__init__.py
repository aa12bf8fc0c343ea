"""Annif: the methods of xmtc as a backend, `backend=xmtc` in a project's settings.

Annif has no plug-in system, but it imports its configuration class by name. So the backend is there with

    export ANNIF_CONFIG=xmtc.integrations.annif.Config

(for a server that loads its projects when it starts: `ProductionConfig`). docs/guide/annif.md has the settings.
"""

from __future__ import annotations

from typing import Any

from xmtc.extras import require

require("xmtc.integrations.annif", "annif")

import annif.backend  # noqa: E402
from annif import default_config  # noqa: E402


def _backend() -> type[Any]:
    from xmtc.integrations.annif.backend import XmtcBackend

    return XmtcBackend


annif.backend._backend_fns["xmtc"] = _backend


class DataFolder(str):
    """The path of Annif's data, which brings the backend along into other processes.

    Annif hands it to the processes that it starts for `--jobs`. Where those begin anew instead of as a copy (macOS,
    Windows), they read no configuration; but to unpickle this class they import this module.
    """

    __slots__ = ()


class Config(default_config.Config):  # type: ignore[misc]
    """Annif's default configuration, with the backend."""

    DATADIR = DataFolder(default_config.Config.DATADIR)


class ProductionConfig(Config):
    """The same for a server: projects are loaded when it starts."""

    INITIALIZE_PROJECTS = True


class DevelopmentConfig(Config):
    """The same with Flask's debugger."""

    DEBUG = True
