"""The page at `/`: what is sent, with which headers, and that it is all of this package."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from xmtc.corpus.corpus import Corpus
from xmtc.models.registry import make
from xmtc.serve.app import create_app
from xmtc.serve.page import HEADERS, PageFile, page_files, page_routes
from xmtc.serve.settings import ServeSettings

FILES = page_files()


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.include_router(page_routes())
    return TestClient(app)


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def text_of(name: str) -> str:
    return FILES[name].content.decode("utf-8")


START = Elements(text_of("index.html")).found


def test_the_page_and_all_that_it_loads_are_sent(client: TestClient) -> None:
    assert client.get("/").text == text_of("index.html")
    loaded = [str(of.get("src") or of["href"]) for tag, of in START if tag in ("script", "link")]
    assert len(loaded) >= 5
    for path in loaded:
        assert client.get(f"/{path}").status_code == 200, path
    for name in FILES:
        for imported in re.findall(r'^import .* from "\./(.+)";$', text_of(name), re.MULTILINE):
            assert client.get(f"/page/{imported}").status_code == 200, imported


@pytest.mark.parametrize("name", sorted(set(FILES) - {"index.html"}))
def test_each_file_has_its_type_and_strict_headers(client: TestClient, name: str) -> None:
    answer = client.get(f"/page/{name}")
    kind = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[name.split(".")[-1]]
    assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert answer.content == FILES[name].content
    assert {header: answer.headers[header] for header in HEADERS} == HEADERS


def test_the_policy_allows_nothing_but_files_of_this_server(client: TestClient) -> None:
    policy = dict(each.split(" ", 1) for each in client.get("/").headers["Content-Security-Policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert {"script-src", "style-src", "connect-src", "base-uri", "form-action", "frame-ancestors"} <= set(policy)


def test_a_browser_that_has_a_file_is_told_so(client: TestClient) -> None:
    first = client.get("/page/app.js")
    again = client.get("/page/app.js", headers={"If-None-Match": f'"other", W/{first.headers["ETag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert client.get("/page/app.js", headers={"If-None-Match": '"other"'}).status_code == 200
    assert PageFile.of("a.js", b"1").etag != PageFile.of("a.js", b"2").etag


def test_head_is_answered_as_get_is(client: TestClient) -> None:
    assert client.head("/").status_code == 200
    assert client.post("/").status_code == 405


@pytest.mark.parametrize(
    "path", ["/page/", "/page/index.html", "/page/../page.py", "/page/%2e%2e/page.py", "/page/x.js"]
)
def test_no_other_file_can_be_had(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    addresses = re.findall(r"(?:https?:|wss?:)?//[\w.-]+\.[\w/.-]+", text_of(name))
    assert [each for each in addresses if each != "http://www.w3.org/2000/svg"] == []
    assert "@import" not in text_of(name)


@pytest.mark.parametrize("name", sorted(each for each in FILES if each.endswith(".js")))
def test_texts_never_become_markup(name: str) -> None:
    """Texts and label names may hold anything: no way from a string to an element, a style or a program."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|new Function|srcdoc|cssText"
    assert not re.search(forbidden, text_of(name))


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    assert [of for tag, of in START if tag == "style" or (tag == "script" and "src" not in of)] == []
    assert [of for _, of in START if "style" in of or any(key.startswith("on") for key in of)] == []


def test_every_control_has_a_name() -> None:
    """A label around it, or one that names it."""
    assert START[0] == ("html", {"lang": "en"})
    named = {of["for"] for tag, of in START if tag == "label" and "for" in of}
    inside = set(re.findall(r'<label[^>]*>[^<]*<(?:input|select) id="(\w+)"', text_of("index.html")))
    controls = {of["id"] for tag, of in START if tag in ("input", "select", "textarea") and "hidden" not in of}
    assert controls - named - inside == set()


def test_ids_that_the_script_looks_for_are_there() -> None:
    wanted = set(re.findall(r'\bat\("([\w-]+)"\)', text_of("app.js")))
    listed = re.search(r"=\s*\[((?:\"[\w-]+\"(?:, )?)+)\]\.map\(at\)", text_of("app.js"))
    assert listed is not None
    wanted |= set(re.findall(r"[\w-]+", listed[1]))
    assert wanted <= {of.get("id") for _, of in START}


def test_the_look_is_that_of_the_reports() -> None:
    """Colours are the reports' variables; the page names none but a shadow's."""
    page = text_of("page.css")
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)", re.sub(r"#[a-z][\w-]*(?=[^;]*\{)", "", page)) == []
    used = set(re.findall(r"var\((--[\w-]+)\)", page + text_of("shading.css")))
    given = set(re.findall(r"(--[\w-]+):", text_of("look.css") + text_of("shading.css") + page))
    assert used - given <= {"--shade"}, "set by the script"
    assert "prefers-color-scheme: dark" in text_of("look.css")


def test_a_server_with_a_token_sends_the_page_without_one_and_what_the_page_reads_with_it(tmp_path: Path) -> None:
    texts = ["red apple", "green apple", "blue sky", "grey sky"]
    make("knn").fit(Corpus.of(texts, [["fruit"], ["fruit"], ["sky"], ["sky"]])).save(tmp_path / "tagger")
    settings = ServeSettings(models=(str(tmp_path / "tagger"),), token="t" * 16, feedback=tmp_path / "feedback.jsonl")
    with TestClient(create_app(settings)) as server:
        page = server.get("/")
        assert page.status_code == 200
        assert {header: page.headers[header] for header in HEADERS} == HEADERS, "the server's own are stricter"
        refused = server.get("/v1/models")
        assert (refused.status_code, isinstance(refused.json()["detail"], str)) == (401, True)
        server.headers["Authorization"] = f"Bearer {settings.token}"
        (model,) = server.get("/v1/models").json()["models"]
        read = {"id", "title", "labels", "documents", "score_kind", "explains", "tuned", "curve"}
        assert read <= set(model)
        path = f"/v1/models/{model['id']}"
        text = "an apple 🍏 apple"
        answer = server.post(f"{path}/predict", json={"documents": [text], "k": 10, "threshold": None}).json()
        assert {"version", "score_kind"} <= set(answer)
        best = answer["results"][0]["labels"][0]
        assert (best["id"], best["path"][-1] == best["name"], best["score"] > 0) == ("fruit", True, True)
        why = server.post(f"{path}/explain", json={"text": text, "label": best["id"]}).json()
        assert [why["text"][at["start"] : at["end"]] for at in why["places"]] == ["apple", "apple"]
        assert {"name", "score", "words", "evidence"} <= set(why)
        found = server.get(f"{path}/labels", params={"search": "sk", "limit": 12}).json()["labels"]
        assert [label["id"] for label in found] == ["sky"]
        told = {"text": "a sky", "labels": ["sky"], "predicted": ["fruit"]}
        assert server.post(f"{path}/feedback", json=told).status_code == 202
