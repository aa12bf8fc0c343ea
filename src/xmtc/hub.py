"""Models on the Hugging Face Hub: a model at `hf://user/name[@revision]` is downloaded, a model folder is uploaded.

Only the files that the model's manifest names are downloaded, into the cache of huggingface_hub. They are checked like
those of any model folder, so nothing from the Hub is ever run.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmtc.atomic_folder import HUB, MANIFEST
from xmtc.errors import HubError, XmtcError
from xmtc.extras import require

if TYPE_CHECKING:
    from huggingface_hub import HfApi

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
TIMEOUT = 10.0  # seconds until the Hub counts as not there
LOG_IN = "log in with `hf auth login` or set HF_TOKEN"


def is_address(path: str | Path) -> bool:
    """Whether a model is named by its address on the Hub.

    >>> is_address("hf://user/name"), is_address("models/tagger")
    (True, False)
    """
    return str(path).startswith(HUB)


def parse(address: str | Path) -> tuple[str, str | None]:
    """The repository and the revision of an address.

    >>> parse("hf://user/name"), parse("hf://user/name@v1.0")
    (('user/name', None), ('user/name', 'v1.0'))
    """
    repo, at, revision = str(address).removeprefix(HUB).lstrip("/").rstrip("/").partition("@")
    if not REPO.fullmatch(repo) or (at and not revision):
        raise HubError(
            f"{address}: not an address of a model on the Hub; write hf://user/name or hf://user/name@revision"
        )
    return repo, revision or None


def download(address: str | Path) -> Path:
    """The folder of a model in the cache, downloaded if it is not there in this revision."""
    repo, revision = parse(address)
    with _explained(str(address), "download") as library:
        api = _client(library)
        cached = not _reachable(library, api, repo, revision)
        manifest = Path(api.hf_hub_download(repo, MANIFEST, revision=revision, local_files_only=cached))
        # The same commit for all files, also if the model is replaced while they are downloaded.
        commit, names = manifest.parent.name, [MANIFEST, *files_of(manifest)]
        wanted = list(map(glob.escape, names))
        return Path(api.snapshot_download(repo, revision=commit, allow_patterns=wanted, local_files_only=cached))


def upload(folder: Path, repo: str, private: bool | None, token: str | None, message: str) -> str:
    """Upload a model folder, in one commit that replaces an older model; the address of what was uploaded."""
    address = f"{HUB}/{check_repo(repo)}"
    with _explained(address, "upload") as library:
        api = _client(library, token)
        api.create_repo(repo, private=private, exist_ok=True)
        if private and not api.repo_info(repo).private:
            raise HubError(
                f"{address}: exists already and is public; make it private in its settings, or leave private out"
            )
        older = _older_files(library, api, repo)
        done = api.upload_folder(
            repo_id=repo, folder_path=folder, commit_message=message, delete_patterns=list(map(glob.escape, older))
        )
        return f"{address}@{done.oid}"


def check_repo(repo: str) -> str:
    """The name of a repository, `user/name`, or a HubError."""
    if not isinstance(repo, str) or not REPO.fullmatch(repo):
        raise HubError(f"{repo!r}: not a name of a model on the Hub; write user/name")
    return repo


def files_of(manifest: Path) -> list[str]:
    """The files that a manifest names; none if it is no manifest, which `xmtc.storage.opening` then says."""
    try:
        return list(map(str, json.loads(manifest.read_text("utf-8"))["files"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _older_files(library: Any, api: HfApi, repo: str) -> list[str]:
    """The files of the model that is in the repository; other files there are left alone."""
    try:
        return files_of(Path(api.hf_hub_download(repo, MANIFEST)))
    except library.errors.EntryNotFoundError:
        return []


def _client(library: Any, token: str | None = None) -> HfApi:
    api: HfApi = library.HfApi(token=token, library_name="xmtc")
    return api


@contextmanager
def _explained(address: str, what: str) -> Iterator[Any]:
    """Give the library; whatever it raises becomes a sentence."""
    require(address, "hub")
    import huggingface_hub

    try:
        yield huggingface_hub
    except XmtcError:
        raise
    except Exception as error:  # of its HTTP library too, which is another one in each of its versions
        raise HubError(f"{address}: {_sentence(error, huggingface_hub, what)}") from error


def _sentence(error: Exception, library: Any, what: str) -> str:
    """What went wrong, and what to do."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):  # "error while uploading ..."
        error = error.__cause__
    errors, status = library.errors, getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return f"access is restricted; ask for it on the model's page, then {LOG_IN}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such model on the Hub, or one that you may not see; check the name, or {LOG_IN}"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the model has no such revision; name a branch, a tag or a commit"
    not_cached = isinstance(error, errors.LocalEntryNotFoundError)
    if (not_cached and error.__cause__ is None) or _down(error.__cause__ if not_cached else error, library):
        offline = "HF_HUB_OFFLINE is set" if library.constants.HF_HUB_OFFLINE else "the Hub cannot be reached"
        cache = " and the model is not in the cache" if what == "download" else ""
        return f"{offline}{cache}; check the connection, or load the model from a folder"
    if isinstance(error, errors.EntryNotFoundError) and not not_cached:
        return f"no {MANIFEST} in it, so this is not an xmtc model"
    if status in (401, 403):
        return f"you may not {what} this ({status}); {LOG_IN}, with a token that may"
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"the {what} failed: {reason}"


def _reachable(library: Any, api: HfApi, repo: str, revision: str | None) -> bool:
    """Whether the Hub answers; asked once, since a download tries for half a minute before it looks at the cache."""
    try:
        api.repo_info(repo, revision=revision, timeout=TIMEOUT)
    except Exception as error:
        if not _down(error, library):
            raise
        return False
    return True


def _down(error: BaseException | None, library: Any) -> bool:
    """Whether an error says that there is no connection, or no working Hub behind it."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return bool(status >= 500)
    network = type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "requests")
    return network or isinstance(error, ConnectionError | library.errors.OfflineModeIsEnabled)
