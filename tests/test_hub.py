from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import LARGE, FakeHub, Repo, hub_in_place
from typer.testing import CliRunner

import xmtc
from xmtc import hub as hub_module
from xmtc.cli.app import app
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, HubError, MissingExtra, NotFitted, XmtcError
from xmtc.models.base import Model

# The library's own, when it uploads a large file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

TEXTS = ["red apple", "green apple", "blue sky", "grey sky"] * 3
TAGS = [["fruit"], ["fruit"], ["weather"], ["weather"]] * 3


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with hub_in_place(tmp_path, monkeypatch) as running:
        yield running


@pytest.fixture(scope="module")
def model() -> Model:
    return xmtc.make("dismec").fit(Corpus.of(TEXTS, TAGS, name="docs.csv"))


@pytest.fixture(scope="module")
def large_model() -> Model:
    texts = [f"word{at} term{at % 7} red apple" for at in range(2000)]
    return xmtc.make("knn").fit(Corpus.of(texts, [[f"label{at % 300}"] for at in range(2000)]))


def test_a_model_comes_back_from_the_hub(server: FakeHub, model: Model) -> None:
    address = model.push_to_hub("me/tagger", private=True)
    assert server.repos["me/tagger"].private
    assert address == f"hf://me/tagger@{server.repos['me/tagger'].sha()}"
    for place in ("hf://me/tagger", address, "hf://me/tagger@main", Path("hf://me/tagger")):
        loaded = xmtc.load(place)
        assert loaded.predict(TEXTS).names() == model.predict(TEXTS).names()


def test_the_card_on_the_hub_says_how_to_load_it_from_there(server: FakeHub, model: Model) -> None:
    model.push_to_hub("me/tagger")
    card = server.files("me/tagger")["README.md"].decode()
    assert 'xmtc.load("hf://me/tagger")' in card
    assert "xmtc predict hf://me/tagger docs.csv" in card


def test_large_files_go_their_own_way(server: FakeHub, large_model: Model) -> None:
    large_model.push_to_hub("me/large")
    assert len(server.large_files) >= 2
    assert all(len(content) > LARGE for content in server.large_files.values())
    loaded = xmtc.load("hf://me/large")
    assert loaded.predict(["word7 term3"]).names() == large_model.predict(["word7 term3"]).names()
    assert any("/lfs/" in request and request.startswith("GET") for request in server.requests)


def test_only_the_files_of_the_model_are_downloaded(server: FakeHub, model: Model, tmp_path: Path) -> None:
    model.push_to_hub("me/tagger")
    server.commit("me/tagger", **{"picture.png": b"..", "evil.pkl": b"cos\nsystem\n", "code/run.py": b"1/0"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xmtc.load("hf://me/tagger")
    fetched = {file.name for file in (tmp_path / "cache").rglob("*") if "snapshots" in file.parts and file.is_file()}
    assert fetched == set(server.files("me/tagger")) - {".gitattributes", "picture.png", "evil.pkl", "code/run.py"}


def test_an_edited_card_on_the_hub_does_no_harm(server: FakeHub, model: Model) -> None:
    model.push_to_hub("me/tagger")
    server.commit("me/tagger", **{"README.md": b"---\nlicense: mit\n---\n"})
    xmtc.load("hf://me/tagger").predict(["an apple"])
    server.commit("me/tagger", **{"README.md": None})
    xmtc.load("hf://me/tagger").predict(["an apple"])


def test_a_second_model_replaces_the_first_and_leaves_other_files(
    server: FakeHub, model: Model, large_model: Model
) -> None:
    model.push_to_hub("me/tagger")
    first = server.repos["me/tagger"].sha()
    server.commit("me/tagger", **{"LICENSE": b"mine"})
    large_model.push_to_hub("me/tagger", message="A better one")
    files = set(server.files("me/tagger"))
    assert "biases.safetensors" not in files
    assert files - {"LICENSE", ".gitattributes", "manifest.json"} == set(
        json.loads(server.files("me/tagger")["manifest.json"])["files"]
    )
    assert xmtc.load("hf://me/tagger").name == "knn"
    assert xmtc.load(f"hf://me/tagger@{first}").name == "dismec"


def test_a_loaded_model_is_pushed_with_its_figures(server: FakeHub, model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model", {"metrics": {"validation": {"P@1": 64.0}}})
    xmtc.load(tmp_path / "model").push_to_hub("me/tagger")
    assert "64.00" in server.files("me/tagger")["README.md"].decode()
    model.metrics_ = {}


def test_what_is_in_the_cache_loads_without_the_hub(
    server: FakeHub, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.push_to_hub("me/tagger")
    xmtc.load("hf://me/tagger")
    constants: Any = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert xmtc.load("hf://me/tagger").predict(["an apple"], k=1).names()[0][0][0] == "fruit"
    with pytest.raises(HubError, match=r"^hf://me/other: HF_HUB_OFFLINE is set and the model is not in the cache"):
        xmtc.load("hf://me/other")


def test_offline_says_so(server: FakeHub, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    constants: Any = importlib.import_module("huggingface_hub.constants")
    nobody = "http://127.0.0.1:9"  # the port at which nobody answers
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, nobody)
    monkeypatch.setattr(constants, "ENDPOINT", nobody)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(HubError, match=r"^hf://me/tagger: the Hub cannot be reached and .* not in the cache"):
        xmtc.load("hf://me/tagger")
    with pytest.raises(HubError, match=r"^hf://me/tagger: the Hub cannot be reached; check"):
        model.push_to_hub("me/tagger")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://", "write hf://user/name"),
        ("hf:/", "write hf://user/name"),
        ("hf://name", "write hf://user/name"),
        ("hf://user/", "write hf://user/name"),
        ("hf:///name", "write hf://user/name"),
        ("hf://user/name/file", "write hf://user/name"),
        ("hf://user/name@", "write hf://user/name"),
        ("hf://../name", "write hf://user/name"),
        ("hf://user/na me", "write hf://user/name"),
        ("hf://user/naïve", "write hf://user/name"),
        ("hf://user/name\n", "write hf://user/name"),
        ("hf://user/" + "x" * 200, "."),
        ("hf://me/nothing", "no such model on the Hub, or one that you may not see"),
        ("hf://me/tagger@v9", "no such revision"),
        ("hf://me/tagger@" + "0" * 40, "no such revision|no such model|not in the cache"),
        ("hf://me/tagger@feature/x", "no such revision"),
        ("hf://me/empty", "no manifest.json in it, so this is not an xmtc model"),
        ("hf://me/other", "this is no manifest"),
        ("hf://me/notjson", "damaged"),
        ("hf://me/outside", "outside of the folder"),
        ("hf://me/torn", "missing"),
        ("hf://me/altered", "altered"),
        ("hf://me/gated", "access is restricted"),
    ],
)
def test_addresses_that_do_not_lead_to_a_model(
    server: FakeHub, model: Model, monkeypatch: pytest.MonkeyPatch, address: str, message: str
) -> None:
    model.push_to_hub("me/tagger")
    files = server.files("me/tagger")
    for name, changes in {
        "empty": {"manifest.json": None},
        "other": {"manifest.json": b'{"files": {"config.json": 1}}'},
        "notjson": {"manifest.json": b"\xff["},
        "outside": {"manifest.json": outside(files["manifest.json"])},
        "torn": {"weights.safetensors": None},
        "altered": {"weights.safetensors": files["weights.safetensors"][:-1] + b"?"},
    }.items():
        server.repos[f"me/{name}"] = Repo(commits=[dict(files)])
        server.commit(f"me/{name}", **changes)  # type: ignore[arg-type]
    server.repos["me/gated"] = Repo(gated=True, commits=[dict(files)])
    monkeypatch.setenv("HF_TOKEN", "reader")
    with pytest.raises(BadModelFolder, match=message) as error:
        xmtc.load(address).predict(["an apple"])
    assert "\n" not in str(error.value).strip("\n").replace(address, "")
    result = CliRunner().invoke(app, ["info", address])
    assert result.exit_code != 0


def outside(manifest: bytes) -> bytes:
    from xmtc.storage import _checksum

    content = json.loads(manifest)
    content["files"]["../../evil"] = {"bytes": 1, "sha256": ""}
    content["checksum"] = _checksum(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("repo", "token", "message"),
    [
        ("tagger", "writer", "write user/name"),
        ("", "writer", "write user/name"),
        ("hf://me/tagger", "writer", "write user/name"),
        ("me/tag/ger", "writer", "write user/name"),
        ("me/../tagger", "writer", "write user/name"),
        (None, "writer", "write user/name"),
        (7, "writer", "write user/name"),
        ("me/tagger", "reader", r"you may not upload this \(403\)"),
        ("me/public", "reader", r"you may not upload this \(403\)"),
        ("me/" + "x" * 100, "writer", "failed"),
        ("me/x..y", "writer", "failed"),
    ],
)
def test_places_to_which_a_model_cannot_go(server: FakeHub, model: Model, repo: Any, token: str, message: str) -> None:
    server.repos["me/public"] = Repo()
    with pytest.raises(HubError, match=message) as error:
        model.push_to_hub(repo, token=token)
    assert "\n" not in str(error.value)
    assert not any("/commit/" in request for request in server.requests)


def test_a_public_repository_is_never_taken_for_a_private_one(server: FakeHub, model: Model) -> None:
    server.repos["me/public"] = Repo()
    with pytest.raises(HubError, match="exists already and is public"):
        model.push_to_hub("me/public", private=True)
    assert set(server.files("me/public")) == {".gitattributes"}
    model.push_to_hub("me/public")


def test_without_a_token(server: FakeHub, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    model.push_to_hub("me/tagger", private=True)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(HubError, match="log in with `hf auth login`"):
        xmtc.load("hf://me/tagger")
    with pytest.raises(HubError, match="log in with `hf auth login`"):
        model.push_to_hub("me/new")


def test_a_hub_that_is_down(server: FakeHub, model: Model) -> None:
    model.push_to_hub("me/here")
    xmtc.load("hf://me/here")
    server.broken = True
    assert xmtc.load("hf://me/here").predict(["an apple"], k=1).names()[0][0][0] == "fruit"
    with pytest.raises(HubError, match="the Hub cannot be reached; check"):
        model.push_to_hub("me/tagger")
    with pytest.raises(HubError, match=r"^hf://me/tagger: ") as error:
        xmtc.load("hf://me/tagger")
    assert "\n" not in str(error.value)


def test_a_model_that_was_not_fitted_stays_here(server: FakeHub) -> None:
    with pytest.raises(NotFitted):
        xmtc.make("dismec").push_to_hub("me/tagger")
    assert not server.requests


def test_saving_to_an_address_is_refused(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("hf://me/tagger", Path("hf://me/tagger")):
        with pytest.raises(BadModelFolder, match="push_to_hub"):
            model.save(place)
    assert not list(tmp_path.iterdir())


def test_a_clone_with_git_files_loads_without_a_warning(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    (tmp_path / "model" / ".gitattributes").write_text("")
    (tmp_path / "model" / ".cache").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xmtc.load(tmp_path / "model")


def test_the_library_is_named_where_it_is_missing(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: xmtc.load("hf://me/tagger"), lambda: model.push_to_hub("me/tagger")):
        with pytest.raises(MissingExtra, match=r"hf://me/tagger needs huggingface_hub; .* 'xmtc\[hub\]'"):
            call()


def test_the_command_line_takes_an_address(server: FakeHub, model: Model, tmp_path: Path) -> None:
    model.push_to_hub("me/tagger")
    (tmp_path / "docs.txt").write_text("an apple\n")
    result = CliRunner().invoke(app, ["info", "hf://me/tagger"])
    assert result.exit_code == 0, result.output
    assert "dismec" in result.output
    environment = {
        **os.environ,
        "HF_ENDPOINT": server.url,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(Path(hub_module.__file__).parent.parent), os.environ.get("PYTHONPATH")])
        ),
    }
    for address, code, words in (("hf://me/tagger", 0, "fruit"), ("hf://me/none", 2, "no such model on the Hub")):
        run = subprocess.run(
            [sys.executable, "-m", "xmtc", "predict", address, "docs.txt", "--k", "1"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == code, run.stderr
        assert words in run.stdout + run.stderr
        assert "Traceback" not in run.stderr


def test_errors_of_the_hub_are_errors_of_a_model_folder() -> None:
    assert issubclass(HubError, BadModelFolder)
    assert issubclass(HubError, XmtcError)
