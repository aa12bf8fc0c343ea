"""`xmtc serve`: models behind an HTTP API, with a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Model folders, or NAME=FOLDER.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen at; 0: any.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token that clients must send.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option("--cors", help="Origin whose pages may ask, such as https://example.org.")
    ] = None,
    max_body: Annotated[str, typer.Option("--max-body", help="Size of a request, at most.")] = "4M",
    max_batch: Annotated[
        int, typer.Option("--max-batch", min=32, help="Documents in a request, and predicted at once.")
    ] = 256,
    max_queue: Annotated[int, typer.Option("--max-queue", min=32, help="Documents that wait for each model.")] = 1024,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that a request may take.")] = 30.0,
    drain: Annotated[float, typer.Option("--drain", min=0.0, help="Seconds to serve on after SIGTERM, unready.")] = 5.0,
    feedback: Annotated[Path | None, typer.Option("--feedback", help="File (JSON lines) for corrected labels.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Take over a new model in the folder.")] = False,
    allow_learn: Annotated[
        bool, typer.Option("--allow-learn", help="Let clients teach models, which changes their folders.")
    ] = False,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write texts and answers into the log.")] = False,
    language: Annotated[str, typer.Option("--language", help="Language of the label names.")] = "en",
) -> None:
    """Serve models over HTTP: an API, Annif's API, and a page.

    The log comes as JSON lines on standard error; SIGTERM ends it in order.

    Example: xmtc serve tagger --port 8000
    """
    from xmtc.errors import ConfigError
    from xmtc.extras import require

    require("xmtc serve", "serve")
    from xmtc.serve.lifecycle import serve as serve_until_stopped
    from xmtc.serve.security import check_origin, read_token
    from xmtc.serve.settings import ServeSettings

    if max_queue < max_batch:
        raise ConfigError(f"--max-queue {max_queue}: at least --max-batch ({max_batch}), or large batches find no room")
    settings = ServeSettings(
        models=tuple(models),
        token=read_token(token_file) if token_file is not None else None,
        cors=tuple(check_origin(origin) for origin in cors or ()),
        max_body=size_of(max_body),
        max_batch=max_batch,
        max_queue=max_queue,
        timeout=timeout,
        drain=drain,
        feedback=feedback,
        watch=watch,
        allow_learn=allow_learn,
        log_texts=log_texts,
        language=language,
    )
    if settings.token is None and host not in LOOPBACK:
        print(
            f"warning: whoever reaches {host} may use this server; ask for a token: --token-file FILE", file=sys.stderr
        )
    serve_until_stopped(settings, host, port)


def size_of(size: str) -> int:
    """Bytes, from a number with K, M or G behind it, or nothing.

    >>> size_of("4M"), size_of("100k"), size_of("2000")
    (4194304, 102400, 2000)
    """
    from xmtc.errors import ConfigError

    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1:].upper(), 1)
    number = size if factor == 1 else size[:-1]
    if not number.isdecimal() or not 1000 <= int(number) * factor <= 1 << 30:
        raise ConfigError(f"--max-body {size}: from 1000 bytes to 1G were expected, such as 500K or 4M")
    return int(number) * factor
