"""A Hugging Face Hub on this machine: as much of its HTTP API as uploading and downloading models needs.

Tokens: "writer" may do everything, "reader" may only read; without one only public repositories are there.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

LARGE = 10_000  # bytes: larger files go the way of large files (LFS)
NO_REPO = (404, {"X-Error-Code": "RepoNotFound"}, {"error": "Repository not found"})
NO_REVISION = (404, {"X-Error-Code": "RevisionNotFound"}, {"error": "Invalid rev id"})
NO_ENTRY = (404, {"X-Error-Code": "EntryNotFound"}, {"error": "Entry not found"})
NOT_ALLOWED = (403, {"X-Error-Message": "You have no write access"}, {"error": "Forbidden"})
Answer = tuple[int, dict[str, str], Any]


@dataclass
class Repo:
    """A repository: its commits, newest last, each a mapping of paths to contents."""

    private: bool = False
    gated: bool = False
    commits: list[dict[str, bytes]] = field(default_factory=lambda: [{".gitattributes": b"*.safetensors lfs\n"}])

    def sha(self, at: int = -1) -> str:
        """The hash of a commit."""
        at %= len(self.commits)
        content = [(path, hashlib.sha1(text).hexdigest()) for path, text in sorted(self.commits[at].items())]
        return hashlib.sha1(repr((at, content)).encode()).hexdigest()

    def find(self, revision: str) -> int | None:
        """The number of a commit by hash or branch."""
        names = {self.sha(at): at for at in range(len(self.commits))} | {"main": len(self.commits) - 1}
        return names.get(unquote(revision))


@dataclass
class FakeHub:
    """What the server holds, and the requests that it got."""

    repos: dict[str, Repo] = field(default_factory=dict)
    large_files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    broken: bool = False  # answers 500 to everything
    url: str = ""

    def files(self, repo: str) -> dict[str, bytes]:
        """The files of a repository now."""
        return self.repos[repo].commits[-1]

    def commit(self, repo: str, **changes: bytes | None) -> None:
        """Change files of a repository as people do on its page; None deletes."""
        changed = {**self.files(repo), **{name: text for name, text in changes.items() if text is not None}}
        for name, text in changes.items():
            if text is None:
                del changed[name]
        self.repos[repo].commits.append(changed)


class Handler(BaseHTTPRequestHandler):
    """Answers requests from the state of the server's FakeHub."""

    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Downloads and facts."""
        self.respond()

    def do_HEAD(self) -> None:
        """Facts of a file."""
        self.respond()

    def do_POST(self) -> None:
        """Uploads."""
        self.respond()

    def do_PUT(self) -> None:
        """Large files."""
        self.respond()

    def respond(self) -> None:
        """Read the request, find the answer, send it."""
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        status, headers, content = (500, {}, {"error": "broken"}) if self.hub.broken else self.answer(path, body)
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    @property
    def token(self) -> str:
        """Who asks."""
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def answer(self, path: str, body: bytes) -> Answer:
        """The answer to a request, by its path."""
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {}, {"errors": [], "warnings": []}
        if found := re.fullmatch(r"/lfs/(\w+)", path):
            return self.large(found[1], body)
        found = re.fullmatch(r"(?:/api/models)?/([^/]+/[^/]+?)(?:\.git)?(?:/(\w[\w-]*)(?:/(.*))?)?", path)
        repo = self.hub.repos.get(found[1]) if found else None
        if not found or repo is None or (repo.private and not self.token):
            return NO_REPO if self.token else (401, {"X-Error-Code": "RepoNotFound"}, {"error": "?"})
        if repo.gated and self.token != "writer" and found[2] == "resolve":
            return 403, {"X-Error-Code": "GatedRepo"}, {"error": "gated"}
        if self.command == "POST" and self.token != "writer":
            return NOT_ALLOWED
        return self.of_repo(found[1], repo, found[2] or "revision", found[3] or "main", body)

    def of_repo(self, name: str, repo: Repo, what: str, rest: str, body: bytes) -> Answer:
        """The answer to a request that concerns a repository."""
        if what == "info":  # /info/lfs/objects/batch
            return self.batch(json.loads(body))
        revision, _, file = rest.partition("/")
        at = repo.find(revision)
        if at is None:
            return NO_REVISION
        files = repo.commits[at]
        if what == "resolve":
            return self.resolve(repo.sha(at), files, file)
        if what == "tree":
            return 200, {}, [entry(path, text) for path, text in files.items()]
        if what == "preupload":
            asked = json.loads(body)["files"]
            modes = [
                {"path": f["path"], "uploadMode": "lfs" if f["size"] > LARGE else "regular", "shouldIgnore": False}
                for f in asked
            ]
            return 200, {}, {"files": modes}
        if what == "commit":
            return self.commit(name, repo, body)
        facts = {"id": name, "sha": repo.sha(at), "private": repo.private, "tags": [], "downloads": 0, "likes": 0}
        return 200, {}, {**facts, "siblings": [{"rfilename": path} for path in files]}

    def create(self, asked: dict[str, Any]) -> Answer:
        """Make a repository."""
        if self.token != "writer":
            return (401, {}, {"error": "Invalid credentials"}) if not self.token else NOT_ALLOWED
        name = f"{asked.get('organization')}/{asked['name']}"
        facts = {"url": f"{self.hub.url}/{name}", "name": name, "id": name}
        if name in self.hub.repos:
            return 409, {}, {"error": "You already created this model repo", **facts}
        self.hub.repos[name] = Repo(private=asked.get("visibility") == "private" or bool(asked.get("private")))
        return 200, {}, facts

    def batch(self, asked: dict[str, Any]) -> Answer:
        """Where to put large files; nothing for those that are there."""
        objects = [
            {"oid": each["oid"], "size": each["size"]}
            | (
                {}
                if each["oid"] in self.hub.large_files
                else {"actions": {"upload": {"href": f"{self.hub.url}/lfs/{each['oid']}"}}}
            )
            for each in asked["objects"]
        ]
        return 200, {}, {"transfer": "basic", "objects": objects}

    def large(self, oid: str, body: bytes) -> Answer:
        """Store a large file, or give it."""
        if self.command == "PUT":
            assert hashlib.sha256(body).hexdigest() == oid
            self.hub.large_files[oid] = body
            return 200, {}, {}
        return 200, {}, self.hub.large_files[oid]

    def commit(self, name: str, repo: Repo, body: bytes) -> Answer:
        """Change files: lines of JSON."""
        files = dict(repo.commits[-1])
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large_files[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        repo.commits.append(files)
        url = f"{self.hub.url}/{name}/commit/{repo.sha()}"
        return 200, {}, {"success": True, "commitOid": repo.sha(), "commitUrl": url, "pullRequestUrl": None}

    def resolve(self, sha: str, files: dict[str, bytes], path: str) -> Answer:
        """A file, or for a large one the place where it is."""
        if path not in files:
            return NO_ENTRY[0], NO_ENTRY[1] | {"X-Repo-Commit": sha}, NO_ENTRY[2]
        text = files[path]
        headers = {"X-Repo-Commit": sha, "ETag": f'"{blob_id(text)}"', "Content-Type": "application/octet-stream"}
        if len(text) <= LARGE:
            return 200, headers, text
        oid = hashlib.sha256(text).hexdigest()
        linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(text))}
        self.hub.large_files[oid] = text
        elsewhere = self.hub.url.replace("127.0.0.1", "localhost")  # the Hub has another host for them too
        return 302, headers | linked | {"Location": f"{elsewhere}/lfs/{oid}"}, b""


def blob_id(text: bytes) -> str:
    """git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()


def entry(path: str, text: bytes) -> dict[str, Any]:
    """A file in the listing of a repository."""
    facts: dict[str, Any] = {"type": "file", "path": path, "size": len(text), "oid": blob_id(text)}
    if len(text) > LARGE:
        facts["lfs"] = {"oid": hashlib.sha256(text).hexdigest(), "size": len(text), "pointerSize": 130}
    return facts


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A running server."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hub_in_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A running server that huggingface_hub takes for the Hub, with its cache in a folder."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    with fake_hub() as running:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, running.url)
        for name, value in {
            "ENDPOINT": running.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": template,
            "HF_HUB_CACHE": str(folder / "cache"),
            "HF_XET_CACHE": str(folder / "xet"),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_DISABLE_PROGRESS_BARS": True,
            "HF_TOKEN_PATH": str(folder / "token"),
        }.items():
            monkeypatch.setattr(constants, name, value, raising=False)
        monkeypatch.setenv("HF_TOKEN", "writer")
        yield running
