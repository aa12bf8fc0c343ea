"""A method whose extra is missing: one sentence with the command that installs it, wherever it is asked for."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path

import pytest
from contract_corpus import small_corpus

from xmtc import storage
from xmtc.cli import main
from xmtc.data import demo_folder
from xmtc.errors import ConfigError, MissingExtra
from xmtc.extras import LIBRARIES, missing, require
from xmtc.models.ensemble.auto import Auto
from xmtc.models.ensemble.blend import Blend
from xmtc.models.registry import CATALOGUE, load, make, model_class
from xmtc.storage import writing

NEURAL = sorted(name for name in CATALOGUE if model_class(name).capabilities.extra == "neural")
INSTALL = "install it with: pip install 'xmtc[neural]'"


@pytest.fixture(autouse=True)
def core_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only the core were installed."""
    for library in (*(each for libraries in LIBRARIES.values() for each in libraries), "faiss", "tensorboard"):
        monkeypatch.setitem(sys.modules, library, None)


def test_what_is_missing_is_found_without_importing_it() -> None:
    assert missing("numpy", "torch", "faiss") == ["torch", "faiss"]
    assert missing("lib2to3_of_nobody") == ["lib2to3_of_nobody"]
    require("reading", "neural", "numpy")
    with pytest.raises(MissingExtra, match=r"^SKOS needs rdflib; install it with: pip install 'xmtc\[skos\]'$"):
        require("SKOS", "skos")


def test_which_methods_are_the_core() -> None:
    linear = ["parabel", "bonsai", "dismec", "proxml", "ppd_sparse", "pd_sparse"]
    others = ["fastxml", "pfastrexml", "craftml", "sleec", "annexml", "slice", "fasttext", "extremetext"]
    core = ["prior", "knn", "rocchio", "mllm", *linear, *others, "blend", "auto"]
    assert sorted([*core, *NEURAL]) == sorted(CATALOGUE)


@pytest.mark.parametrize("name", NEURAL)
def test_making_and_fitting(name: str) -> None:
    with pytest.raises(MissingExtra) as error:
        make(name)
    assert str(error.value) == f"{name} needs torch; {INSTALL}"
    model = model_class(name)()  # settings can be looked at
    with pytest.raises(MissingExtra, match=f"^{name} needs torch; "):
        model.fit(small_corpus())


def test_wrong_settings_are_told_first() -> None:
    with pytest.raises(ConfigError, match="no hyper-parameter 'hiden'"):
        make("attentionxml", hiden=3)


@pytest.mark.parametrize("name", NEURAL)
def test_loading(name: str, tmp_path: Path) -> None:
    with writing(tmp_path / "m", name, model_class(name)().config.model_dump(mode="json"), {}) as folder:
        folder.labels(small_corpus().labels)
    with pytest.raises(MissingExtra) as error:
        load(tmp_path / "m")
    assert str(error.value) == f"{tmp_path / 'm'}: {name} needs torch; {INSTALL}"


@pytest.mark.parametrize(
    ("kind", "library"), [("mean", "tokenizers"), ("tfidf_mean", "tokenizers"), ("encoder", "torch")]
)
def test_settings_that_need_more_than_the_core(kind: str, library: str) -> None:
    with pytest.raises(MissingExtra) as error:
        make("knn", search={"vectors": kind})
    assert str(error.value) == f"search.vectors={kind} needs {library}; {INSTALL}"


def test_members_of_a_blend(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        make("blend", members=["knn", "attentionxml"])
    assert str(error.value) == f"blend: the member attentionxml needs torch; {INSTALL}"
    with pytest.raises(ConfigError) as error:
        Blend(members=["prior", {"model": "knn", "set": {"search": {"vectors": "mean"}}}]).fit(small_corpus())
    assert str(error.value) == f"blend: the member knn with search.vectors=mean needs tokenizers; {INSTALL}"


def test_a_blend_is_loaded_if_the_members_that_it_kept_can_be(tmp_path: Path) -> None:
    corpus = small_corpus()
    folder = tmp_path / "blend"
    Blend.of([make("knn").fit(corpus), make("prior").fit(corpus)], corpus[:5]).save(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["members"] = ["knn", "prior", "attentionxml"]  # of which the last was dropped
    manifest["checksum"] = storage._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert len(load(folder).predict(corpus[:3], k=2)) == 3
    members = json.loads((folder / "members.json").read_text())
    members[1] |= {"kind": "rank_ae", "config": {}}
    (folder / "members.json").write_text(json.dumps(members))
    manifest["files"]["members.json"] = storage._facts(folder / "members.json")
    manifest["checksum"] = storage._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(MissingExtra, match="rank_ae needs torch; "):
        load(folder)


def test_auto_says_once_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    auto = Auto(budget="20s", methods=["prior", "rank_ae", "attentionxml"]).fit(small_corpus())
    said = capsys.readouterr().err
    assert said.count("left out") == 1
    assert "auto: left out: rank_ae, attentionxml; to have them: pip install 'xmtc[neural]', which has networks" in said
    notes = {tried["method"]: tried["note"] for tried in auto.report_["methods"]}
    assert notes["rank_ae"] == f"not tried: rank_ae needs torch; {INSTALL}"
    assert auto.names_ == ["prior"]


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        (["train", "no-file.jsonl", "--model", "attentionxml", "--out", "out"], "attentionxml needs torch"),
        (["train", "no-file.jsonl", "--recipe", "lightxml/debtags", "--out", "out"], "lightxml needs torch"),
        (
            ["train", "no-file.jsonl", "--model", "blend", "--set", "members=[knn, xml_cnn]", "--out", "out"],
            "blend: the member xml_cnn needs torch",
        ),
        (["compare", "no-file", "--models", "prior,c2ae", "--out", "out"], "c2ae needs torch"),
    ],
    ids=["train", "recipe", "blend", "compare"],
)
def test_commands_refuse_before_they_read_or_write(
    command: list[str], needs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert capsys.readouterr().err == f"error: {needs}; {INSTALL}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["train", "no-file", "--model", "dismec", "--out", "out"],
        ["compare", "no-file", "--models", "prior", "--out", "out"],
    ],
    ids=["train", "compare"],
)
def test_a_cluster_without_ray(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--cluster", "auto"]) == 2
    assert capsys.readouterr().err == "error: --cluster needs ray; install it with: pip install 'xmtc[cluster]'\n"
    assert list(tmp_path.iterdir()) == []


def test_predicting_with_a_folder_that_needs_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with writing(tmp_path / "m", "xml_cnn", {}, {}) as folder:
        folder.labels(small_corpus().labels)
    assert main(["predict", str(tmp_path / "m"), str(demo_folder())]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: {tmp_path / 'm'}: xml_cnn needs torch; {INSTALL}\n"


def test_auto_with_only_methods_that_are_left_out() -> None:
    with pytest.raises(ConfigError, match="pip install 'xmtc\\[neural\\]'"):
        make("auto", methods=["attentionxml", "rank_ae"])


@pytest.mark.parametrize("arguments", [[], ["attentionxml"]])
def test_methods_are_listed_all_the_same(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *arguments]) == 0
    assert "attentionxml" in capsys.readouterr().out


def test_the_backend_of_annif_without_annif(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "xmtc.integrations.annif", raising=False)
    with pytest.raises(MissingExtra, match=r"^xmtc.integrations.annif needs annif; .*'xmtc\[annif\]'$"):
        importlib.import_module("xmtc.integrations.annif")


def test_annif_is_an_extra_that_no_other_brings() -> None:
    extras = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(LIBRARIES) <= set(extras)
    assert [name for name, wanted in extras.items() if "annif" in "".join(wanted)] == ["annif"]
