"""xmtc as a backend of Annif 1.4, by Annif's own command line and REST API; skipped where there is no Annif."""

from __future__ import annotations

import pickle
import random
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import xmtc
from xmtc.errors import ConfigError, XmtcError
from xmtc.models.registry import CATALOGUE, make, model_class
from xmtc.predictions import ScoreKind

pytest.importorskip("annif", reason="Annif and transformers 5 cannot be installed together: `make test-annif`")

import annif.cli
import annif.parallel
from annif.registry import AnnifRegistry

from xmtc.integrations.annif import Config, DataFolder
from xmtc.integrations.annif.backend import XmtcBackend
from xmtc.integrations.annif.hyperopt import SPACES, Objective
from xmtc.integrations.annif.settings import ANNIF_SETTINGS, OWN_SETTINGS, limit_of, settings_of

WORDS = {
    "fruit": "apple banana cherry orchard juice peel ripe harvest",
    "weather": "rain cloud storm wind sunshine forecast snow thunder",
    "music": "violin concert melody choir piano rhythm song orchestra",
    "sport": "goal referee stadium marathon athlete coach medal league",
    "law": "court judge contract verdict statute appeal lawyer tribunal",
    "cooking": "oven recipe pan simmer boil spice knife dough",
}
PROJECTS = """
[tags]
language=en
backend=xmtc
vocab=tags
allow_learn=true

[trees]
language=en
backend=xmtc
vocab=tags
method=bonsai
trees=1
allow_learn=true

[stems]
language=en
backend=xmtc
vocab=tags
method=knn
analyzer=snowball(english)

[both]
language=en
backend=ensemble
vocab=tags
sources=tags:2,trees
"""


def uri(subject: str) -> str:
    return f"http://example.org/{subject}"


def documents(count: int, seed: int) -> list[str]:
    """Lines of Annif's short texts: words of one or two subjects, and words that say nothing."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        subjects = rng.sample(sorted(WORDS), rng.choice([1, 1, 2]))
        words = [word for subject in subjects for word in rng.sample(WORDS[subject].split(), 4)]
        words += rng.sample(["about", "today", "people", "large", "under", "first"], 3)
        rng.shuffle(words)
        lines.append(" ".join(words) + "\t" + " ".join(f"<{uri(subject)}>" for subject in subjects))
    return lines


def run(*arguments: str, text: str | None = None, code: int = 0) -> Result:
    """A command of Annif; an error that is not told in a sentence is raised."""
    AnnifRegistry._projects.clear()  # Annif knows a registry by its address, which another one may have had
    for each in annif.logger.filters:
        each.logged.clear()  # it says nothing twice
    result = CliRunner().invoke(annif.cli.cli, [*arguments], input=text, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def suggested(output: str) -> list[tuple[str, float]]:
    """(subject, score) of each suggestion."""
    found = re.findall(r"^<http://example.org/(.*?)>\t.*\t([0-9.e-]+)$", output, re.MULTILINE)
    return [(subject, float(score)) for subject, score in found]


def write_files(folder: Path) -> None:
    (folder / "projects.cfg").write_text(PROJECTS)
    names = [f"<{uri(subject)}>\t{subject.title()}\t{at}" for at, subject in enumerate(WORDS)]
    (folder / "vocab.tsv").write_text("\n".join(names) + "\n")
    (folder / "train.tsv").write_text("\n".join(documents(300, seed=0)) + "\n")
    (folder / "test.tsv").write_text("\n".join(documents(40, seed=1)) + "\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Annif in which the projects `tags` and `trees` are trained."""
    folder = tmp_path_factory.mktemp("annif")
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ANNIF_CONFIG", "xmtc.integrations.annif.Config")
        run("load-vocab", "tags", "vocab.tsv", "-L", "en")
        run("train", "tags", "train.tsv")
        run("train", "trees", "train.tsv")
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is the current one."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANNIF_CONFIG", "xmtc.integrations.annif.Config")
    return tmp_path


@pytest.fixture
def sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Annif's analyzers would download: NLTK's tables of abbreviations, here without any."""
    tables = tmp_path / "nltk" / "tokenizers" / "punkt_tab" / "english"
    tables.mkdir(parents=True)
    for name in ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"):
        (tables / name).touch()
    monkeypatch.setattr("nltk.data.path", [str(tmp_path / "nltk")])


def project_model(project: str) -> Any:
    return xmtc.load(Path("data/projects") / project / "xmtc-model")


def scores_of(output: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(.+?):\s+([0-9.]+)$", output, re.MULTILINE)}


# Train, suggest, evaluate


def test_a_project_is_trained_suggests_and_is_evaluated(place: Path) -> None:
    assert re.search(r"^tags .* True +20", run("list-projects").output, re.MULTILINE)
    assert "Backend:           xmtc" in run("show-project", "tags").output
    found = suggested(run("suggest", "tags", text="a violin and a choir in the rain, thunder and wind").output)
    assert {subject for subject, _ in found[:2]} == {"music", "weather"}
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert all(0 < score <= 1 for _, score in found)
    assert found[1][1] > 0.5 > found[2][1]  # calibrated: they mean something
    assert scores_of(run("eval", "tags", "test.tsv").output)["NDCG"] > 0.95


def test_limit_and_threshold(place: Path) -> None:
    text = "violin choir"
    assert len(suggested(run("suggest", "tags", "--limit", "2", text=text).output)) == 2
    assert len(suggested(run("suggest", "tags", "-b", "xmtc.limit=3", text=text).output)) == 3
    assert [subject for subject, _ in suggested(run("suggest", "tags", "-t", "0.5", text=text).output)] == ["music"]
    refused = run("suggest", "tags", "-b", "xmtc.limit=0", text=text, code=1).output
    assert "Misconfigured project 'tags': limit=0: a whole number from 1 was expected" in refused


def test_the_model_is_a_model_folder_with_the_names_of_the_vocabulary(place: Path) -> None:
    model = project_model("tags")
    assert model.name == "dismec"
    assert sorted(model.labels_.keys) == sorted(map(uri, WORDS))
    assert model.labels_.name(model.labels_.index(uri("law"))) == "Law"
    assert model.labels_.alternatives(model.labels_.index(uri("law"))) == ["4"]
    text = "the judge and the athlete"
    top = model.predict([text], k=6)
    found = suggested(run("suggest", "tags", text=text).output)
    assert [uri(subject) for subject, _ in found] == [model.labels_.key(at) for at in top.ids[0].tolist()]
    assert np.allclose([score for _, score in found], top.scores[0], atol=1e-4)


def test_scores_are_calibrated_where_they_are_no_probabilities(place: Path) -> None:
    assert project_model("tags").score_kind is ScoreKind.CALIBRATED
    assert project_model("tags").train_documents_ == 270
    assert project_model("trees").score_kind is ScoreKind.PROBABILITY
    assert project_model("trees").train_documents_ == 300
    run("train", "tags", "--cached", "-b", "xmtc.calibrate=no")
    assert project_model("tags").score_kind is ScoreKind.RANKING
    found = suggested(run("suggest", "tags", text="violin choir melody").output)
    assert found[0][0] == "music"
    assert all(0 < score < 1 for _, score in found)
    run("train", "trees", "--cached", "-b", "xmtc.calibrate=yes")
    assert project_model("trees").score_kind is ScoreKind.CALIBRATED


def test_few_documents_are_not_held_out(place: Path) -> None:
    said = run("train", "tags", "train.tsv", "-d", "50").output
    assert "too few documents to calibrate scores" in said
    assert project_model("tags").train_documents_ == 50
    assert project_model("tags").score_kind is ScoreKind.RANKING


def test_a_text_without_words_gets_no_subjects(place: Path) -> None:
    for project in ("tags", "trees"):
        assert run("suggest", project, text=" \n").output.strip() == ""


def test_documents_without_a_word_or_a_known_subject_are_left_out(place: Path) -> None:
    lines = [*documents(60, seed=3), f" \t<{uri('law')}>", "no subject\t", "unknown\t<http://example.org/none>"]
    Path("odd.tsv").write_text("\n".join(lines) + "\n")
    said = run("train", "trees", "odd.tsv").output
    assert project_model("trees").train_documents_ == 60
    assert "without a word or without a subject of the vocabulary, left out: " in said
    Path("empty.tsv").write_text("")
    assert "Not supported project 'trees': there are no documents" in run("train", "trees", "empty.tsv", code=1).output
    Path("none.tsv").write_text("unknown\t<http://example.org/none>\n")
    assert "none of 1 document has a word and a subject" in run("train", "trees", "none.tsv", code=1).output
    assert project_model("trees").train_documents_ == 60  # as before


def test_a_project_that_is_not_trained(place: Path) -> None:
    assert "Couldn't initialize" in run("suggest", "stems", text="violin", code=1).output
    assert "Couldn't initialize" in run("eval", "stems", "test.tsv", code=1).output
    run("clear", "tags")
    assert re.search(r"^tags .* False", run("list-projects").output, re.MULTILINE)
    said = run("learn", "tags", "test.tsv", code=1).output
    assert re.search(r"Couldn't initialize project 'tags': model .*xmtc-model not found", said)


def test_a_damaged_model_is_told_in_a_sentence(place: Path) -> None:
    weights = Path("data/projects/tags/xmtc-model/biases.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4])
    said = run("suggest", "tags", text="violin", code=1).output
    assert "Couldn't initialize project 'tags': data/projects/tags/xmtc-model" in said


# Settings


def test_settings_of_a_project() -> None:
    given = {"backend": "xmtc", "language": "en", "limit": "5", "xmtc.cost": "1.5", "tfidf.ngrams": "[1, 2]"}
    assert settings_of(given) == ("dismec", {"cost": 1.5, "tfidf": {"ngrams": [1, 2]}}, None)
    toml = {"method": "auto", "budget": "90s", "xmtc": {"methods": ["knn"]}, "calibrate": True}
    assert settings_of(toml) == ("auto", {"budget": "90s", "methods": ["knn"]}, True)
    assert limit_of({"limit": "7"}) == 7
    for wrong, problem in [
        ({"calibrate": "perhaps"}, "calibrate=perhaps: yes or no was expected"),
        ({"tfidf.ngrams": "[1, 2"}, "tfidf.ngrams=.1, 2: the value is not YAML"),
        ({"cost": "1", "cost.low": "2"}, "cost is a value, not a group of settings"),
    ]:
        with pytest.raises(ConfigError, match=problem):
            settings_of(wrong)


def test_no_method_has_a_setting_that_annif_takes_for_its_own() -> None:
    for name in CATALOGUE:
        assert not (ANNIF_SETTINGS | OWN_SETTINGS) & set(model_class(name).Config.model_fields), name


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("cots=1", "dismec has no hyper-parameter 'cots'; did you mean 'cost'?"),
        ("cost=-1", "dismec: cost=-1: Input should be greater than 0"),
        ("method=dismeck", "there is no model 'dismeck'; did you mean 'dismec'?"),
        ("method=attentionxml", "attentionxml needs torch; install it with: pip install 'xmtc[neural]'"),
    ],
)
def test_a_wrong_setting_is_an_error_before_documents_are_read(place: Path, setting: str, problem: str) -> None:
    before = Path("data/projects/tags/xmtc-model/manifest.json").read_bytes()
    said = run("train", "tags", "train.tsv", "-b", f"xmtc.{setting}", code=1).output
    assert said.endswith(f"Error: Misconfigured project 'tags': {problem}\n")
    assert Path("data/projects/tags/xmtc-model/manifest.json").read_bytes() == before


def test_settings_in_toml(place: Path) -> None:
    Path("projects.toml").write_text(
        '[near]\nlanguage="en"\nbackend="xmtc"\nvocab="tags"\nmethod="knn"\nneighbours=7\ntfidf.min_df=2\n'
    )
    run("train", "near", "train.tsv", "--projects", "projects.toml", "-b", "xmtc.tfidf.max_df=0.9")
    config = project_model("near").config
    assert (config.neighbours, config.tfidf.min_df, config.tfidf.max_df) == (7, 2, 0.9)


def test_auto_within_a_budget(place: Path) -> None:
    settings = ("method=auto", "budget=20s", "methods=[knn, rocchio]")
    run("train", "tags", "train.tsv", *(word for each in settings for word in ("-b", f"xmtc.{each}")))
    assert project_model("tags").config.budget == "20s"
    assert suggested(run("suggest", "tags", text="violin choir").output)[0][0] == "music"


# Further documents, cached documents, a vocabulary that changes


def test_learning_further_documents_and_a_new_subject(place: Path) -> None:
    Path("vocab.tsv").write_text(Path("vocab.tsv").read_text() + f"<{uri('gardens')}>\tGardens\n")
    run("load-vocab", "tags", "vocab.tsv", "-L", "en")
    new = [f"tulip hedge lawn rake {at}\t<{uri('gardens')}>" for at in range(20)]
    Path("new.tsv").write_text("\n".join(new) + "\n")
    run("learn", "tags", "new.tsv")
    assert project_model("tags").train_documents_ == 290
    assert suggested(run("suggest", "tags", text="a tulip in the lawn").output)[0][0] == "gardens"
    assert suggested(run("suggest", "tags", text="violin choir").output)[0][0] == "music"


def test_a_method_that_cannot_learn_further_documents(place: Path) -> None:
    said = run("learn", "trees", "test.tsv", code=1).output
    assert "Not supported project 'trees': the method bonsai cannot learn from further documents" in said


def test_cached_documents(place: Path) -> None:
    before = project_model("trees")
    said = run("train", "trees", "--cached", "-b", "xmtc.cost=0.5").output
    after = project_model("trees")
    assert "training documents of the last run are reused: 300" in said
    assert after.config.cost == 0.5
    assert after.training_["fingerprint"] == before.training_["fingerprint"]
    assert len(xmtc.read("data/projects/trees/xmtc-train.parquet")) == 300
    said = run("train", "stems", "--cached", code=1).output
    assert "Couldn't initialize project 'stems': there are no training documents of an earlier run" in said


def test_subjects_that_are_gone_are_left_out(place: Path) -> None:
    lines = [line for line in Path("vocab.tsv").read_text().splitlines() if "music" not in line]
    Path("vocab.tsv").write_text("\n".join([f"<{uri('first')}>\tFirst", *lines]) + "\n")
    run("load-vocab", "tags", "vocab.tsv", "-L", "en", "--force")  # other numbers for all subjects
    result = run("suggest", "tags", "-b", "xmtc.limit=5", text="violin choir melody judge verdict")
    found = [subject for subject, _ in suggested(result.output)]
    assert found[0] == "law"
    assert sorted(found) == sorted(set(WORDS) - {"music"})  # as many as asked for
    assert "which are left out: 1" in result.output
    Path("vocab.tsv").write_text(f"<{uri('first')}>\tFirst\n")
    run("load-vocab", "tags", "vocab.tsv", "-L", "en", "--force")
    assert suggested(run("suggest", "tags", text="violin").output) == []


def test_a_subject_that_an_update_of_the_vocabulary_drops(place: Path) -> None:
    # The last one: Annif 1.4.3 loses all subjects behind one that is dropped, unless it is told --force.
    lines = Path("vocab.tsv").read_text().splitlines()[:-1]
    Path("vocab.tsv").write_text("\n".join(lines) + "\n")
    run("load-vocab", "tags", "vocab.tsv", "-L", "en")  # Annif keeps its number, and calls it deprecated
    for project in ("tags", "trees"):
        found = [subject for subject, _ in suggested(run("suggest", project, text="oven dough judge").output)]
        assert found[0] == "law"
        assert "cooking" not in found
    run("train", "trees", "--cached")
    assert suggested(run("suggest", "trees", text="oven dough verdict").output)[0][0] == "law"


def test_subjects_that_the_project_excludes(place: Path) -> None:
    excluding = f"vocab=tags(exclude={uri('music')})"
    Path("projects.cfg").write_text(PROJECTS.replace("vocab=tags", excluding))
    found = [subject for subject, _ in suggested(run("suggest", "tags", text="violin choir judge").output)]
    assert found[0] == "law"
    assert "music" not in found
    run("train", "trees", "train.tsv")
    assert project_model("trees").labels_.index(uri("music")) < 0
    assert suggested(run("suggest", "trees", text="violin choir judge").output)[0][0] == "law"


def test_a_model_trained_without_annif(place: Path) -> None:
    corpus = xmtc.read("train.tsv", format="annif")
    make("knn", neighbours=20).fit(corpus).save("data/projects/stems/xmtc-model")
    assert suggested(run("suggest", "stems", text="violin choir").output)[0][0] == "music"


# Analyzers


@pytest.mark.usefixtures("sentences")
def test_the_analyzer_of_the_project_makes_the_words(place: Path) -> None:
    run("train", "stems", "train.tsv")
    cached = xmtc.read("data/projects/stems/xmtc-train.parquet")
    assert cached.texts is not None
    words = {word for text in cached.texts for word in text.split()}
    assert "orchestra" in words
    assert "cherri" in words  # the stem of cherry
    assert suggested(run("suggest", "stems", text="cherries").output)[0][0] == "fruit"


@pytest.mark.usefixtures("sentences")
def test_a_model_keeps_the_analyzer_that_it_was_trained_with(place: Path) -> None:
    run("train", "stems", "train.tsv")
    Path("projects.cfg").write_text(PROJECTS.replace("analyzer=snowball(english)\n", ""))
    assert suggested(run("suggest", "stems", text="cherries").output)[0][0] == "fruit"
    run("train", "stems", "--cached")
    assert suggested(run("suggest", "stems", text="cherries").output)[0][0] == "fruit"
    run("train", "stems", "train.tsv")
    assert suggested(run("suggest", "stems", text="cherries").output) == []


def test_an_analyzer_that_does_not_exist(place: Path) -> None:
    Path("projects.cfg").write_text(PROJECTS.replace("snowball(english)", "snowbal"))
    said = run("train", "stems", "train.tsv", code=1).output
    assert "Misconfigured project 'stems': analyzer=snowbal: No such analyzer snowbal" in said


# Hyperopt


def test_hyperopt_recommends_settings_that_train_takes(place: Path) -> None:
    said = run("hyperopt", "trees", "test.tsv", "--trials", "2", "--results-file", "trials.tsv").output
    recommended = said.split("---\n")[1].split()
    assert [line.split("=")[0] for line in recommended] == ["cost", "bias"]
    assert Path("trials.tsv").read_text().splitlines()[0] == "trial\tvalue\tcost\tbias"
    run("train", "trees", "--cached", *(word for line in recommended for word in ("-b", f"xmtc.{line}")))
    assert project_model("trees").config.cost == pytest.approx(float(recommended[0].split("=")[1]))


def test_hyperopt_that_is_not_possible(place: Path) -> None:
    assert "there are no training documents" in run("hyperopt", "stems", "test.tsv", code=1).output
    assert "there is no metric 'Foo'" in run("hyperopt", "tags", "test.tsv", "-m", "Foo", code=1).output
    Path("projects.cfg").write_text(PROJECTS.replace("method=bonsai\ntrees=1", "method=auto"))
    assert "no settings of the method auto to search" in run("hyperopt", "trees", "test.tsv", code=1).output


def test_a_trial_in_a_process_that_begins_anew() -> None:
    kept: dict[str, str] = {}
    trial = SimpleNamespace(set_user_attr=kept.__setitem__)
    with pytest.raises(XmtcError, match="leave --jobs out"):
        Objective.objective(trial, None)
    assert "leave --jobs out" in kept["problem"]


@pytest.mark.parametrize("method", SPACES)
def test_settings_to_search_are_settings_of_the_method(method: str) -> None:
    for name, values in SPACES[method].items():
        for value in (values.low, values.high):
            make(method, **settings_of({name: value}).values)


# Servers, several processes, cores


def test_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    environment: dict[str, str] = {}  # not that of this process: numba watches it
    system = SimpleNamespace(environ=environment, cpu_count=lambda: 4)
    backend: Any = SimpleNamespace(info=said.append)
    monkeypatch.setattr("xmtc.integrations.annif.backend.os", system)
    monkeypatch.setattr("xmtc.integrations.annif.backend.sys", SimpleNamespace(modules={"numba": None}))
    XmtcBackend._limit_threads(backend, 3)
    assert said == ["--jobs 3 comes too late in this process; set NUMBA_NUM_THREADS=3 before it starts"]
    monkeypatch.setattr("xmtc.integrations.annif.backend.sys", SimpleNamespace(modules={}))
    XmtcBackend._limit_threads(backend, 0)
    assert environment == {}
    XmtcBackend._limit_threads(backend, 3)
    assert environment == {"NUMBA_NUM_THREADS": "3"}


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_evaluation_in_several_processes(place: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = scores_of(run("eval", "tags", "test.tsv").output)
    monkeypatch.setattr(annif.parallel, "MP_START_METHOD", start)
    together = scores_of(run("eval", "tags", "test.tsv", "--jobs", "2").output)
    assert together == pytest.approx(alone)


def test_the_backend_travels_with_the_data_folder() -> None:
    assert type(Config.DATADIR) is DataFolder
    again = pickle.loads(pickle.dumps(Config.DATADIR))
    assert (type(again), again) == (DataFolder, "data")


def test_an_ensemble_of_annif(place: Path) -> None:
    assert suggested(run("suggest", "both", text="violin choir").output)[0][0] == "music"
    assert scores_of(run("eval", "both", "test.tsv").output)["NDCG"] > 0.95


@pytest.mark.filterwarnings("ignore:Using `httpx` with", "ignore::DeprecationWarning")
def test_the_rest_api(place: Path) -> None:
    AnnifRegistry._projects.clear()
    with annif.create_cx_app("xmtc.integrations.annif.ProductionConfig").test_client() as client:
        project = client.get("/v1/projects/tags").json()
        assert (project["backend"]["backend_id"], project["is_trained"]) == ("xmtc", True)
        found = client.post("/v1/projects/tags/suggest", data={"text": "violin choir", "limit": "2"}).json()
        assert found["results"][0]["label"] == "Music"
        assert len(found["results"]) == 2
        texts = {"documents": [{"text": "violin"}, {"text": "verdict"}]}
        batch = client.post("/v1/projects/trees/suggest-batch", json=texts).json()
        assert [each["results"][0]["label"] for each in batch] == ["Music", "Law"]
        lesson = [{"text": f"pudding {at}", "subjects": [{"uri": uri("cooking")}]} for at in range(20)]
        assert client.post("/v1/projects/tags/learn", json=lesson).status_code == 204
        found = client.post("/v1/projects/tags/suggest", data={"text": "pudding"}).json()
        assert found["results"][0]["label"] == "Cooking"
        untrained = client.post("/v1/projects/stems/suggest", data={"text": "violin"})
        assert untrained.status_code == 503
        assert "not trained" in untrained.json()["detail"]


# The page about it


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "guide" / "annif.md").read_text("utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    installing, files, projects, commands = blocks[:4]
    assert [kind for kind, _ in (installing, files, projects, commands)] == ["console", "python", "text", "console"]
    (variable,) = re.findall(r"^export ANNIF_CONFIG=(\S+)$", installing[1], re.MULTILINE)
    monkeypatch.setenv("ANNIF_CONFIG", variable)
    exec(compile(files[1], "annif.md", "exec", dont_inherit=True), {})
    Path("projects.cfg").write_text(projects[1])
    said = {}
    for line in commands[1].splitlines():
        text, piped, command = line.rpartition(" | ")
        words = shlex.split(command)
        assert words[0] == "annif", line
        said[words[1]] = run(*words[1:], text=shlex.split(text)[1] if piped else None).output
    assert said["suggest"].splitlines()[0].startswith("<")
    assert len(said["suggest"].splitlines()) == 3
    assert scores_of(said["eval"])["NDCG"] > 0.7
    assert project_model("tags").config.cost == 0.2
    (refused,) = (block for kind, block in blocks if block.startswith("Error: "))
    assert run("train", "tags", "train.annif.tsv", "-b", "xmtc.cots=1", code=1).output.endswith(refused)
