"""Annif with `backend=http` asks our server: `annif suggest` and `annif eval`. Takes minutes and the network.

    python tools/check_annif_http.py [--annif PROGRAM]

Makes a venv in a temporary folder with Annif alone (unless its program is named), trains `dismec` on a few documents,
serves it, and lets Annif suggest subjects and evaluate through the server. Fails unless Annif finds what is right.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import xmtc

ANNIF = "annif==1.4.3"
TOPICS = {"fruit": "apple pear plum juice", "weather": "rain sky cloud storm", "music": "violin choir melody opera"}
PROJECT = """[served]
name=A model of xmtc
language=en
backend=http
endpoint=http://127.0.0.1:{port}/v1/projects/tagger/suggest
vocab=topics
limit=10
"""


def main() -> int:
    """Install, serve, ask; an error of any step ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annif", type=Path, help="the program, if Annif is installed already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        annif = options.annif.absolute() if options.annif is not None else installed(place / "venv")
        xmtc.make("dismec").fit(corpus()).save(place / "tagger")
        log = place / "log"
        with open(log, "wb") as stream:
            command = [sys.executable, "-m", "xmtc", "serve", str(place / "tagger"), "--port", "0", "--drain", "0"]
            server = subprocess.Popen(command, stderr=stream)
        try:
            ask(annif, place, port_of(log, server))
        finally:
            server.terminate()
            server.wait(60)
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        asked = [line["path"] for line in lines if line["event"] == "request" and line["status"] == 200]
        print(f"the server answered {len(asked)} requests, none refused")
        assert len(asked) == sum(line["event"] == "request" for line in lines)
    return 0


def installed(place: Path) -> Path:
    """Annif in a venv of its own."""
    venv.create(place, with_pip=True)
    run([place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", ANNIF], place)
    return place / "bin" / "annif"


def corpus() -> xmtc.Corpus:
    """Documents of two words of their topic."""
    pairs = [(f"{a} {b}", topic) for topic, words in TOPICS.items() for a in words.split() for b in words.split()]
    return xmtc.Corpus.of([text for text, _ in pairs], [[uri(topic)] for _, topic in pairs])


def uri(topic: str) -> str:
    """The URI of a topic."""
    return f"http://example.org/{topic}"


def ask(annif: Path, place: Path, port: int) -> None:
    """Suggest for a text and evaluate on documents."""
    (place / "projects.cfg").write_text(PROJECT.format(port=port))
    (place / "vocabulary.tsv").write_text("".join(f"<{uri(topic)}>\t{topic.title()}\n" for topic in TOPICS))
    lines = [f"{words}\t<{uri(topic)}>" for topic, words in TOPICS.items()]
    (place / "documents.tsv").write_text("\n".join(lines) + "\n")
    run([annif, "load-vocab", "--language", "en", "topics", "vocabulary.tsv"], place)
    suggested = run([annif, "suggest", "served", "--limit", "2"], place, "violin and choir")
    print(suggested)
    assert suggested.startswith(f"<{uri('music')}>\tMusic\t"), suggested
    run([annif, "eval", "served", "documents.tsv", "--metrics-file", "metrics.json"], place)
    metrics = json.loads((place / "metrics.json").read_text())
    print({name: metrics[name] for name in ("NDCG", "Precision@1", "Documents_evaluated") if name in metrics})
    assert metrics["Precision@1"] == 1.0
    print(run([annif, "list-projects"], place))


def port_of(log: Path, server: subprocess.Popen[bytes]) -> int:
    """The port of the server, once it is ready."""
    for _ in range(1200):
        whole = (line for line in log.read_text().splitlines(keepends=True) if line.endswith("}\n"))
        lines = [json.loads(line) for line in whole if line.startswith("{")]
        if any(line["event"] == "server ready" for line in lines):
            return next(int(line["address"].rpartition(":")[2]) for line in lines if line["event"] == "listening")
        if server.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.1)
    sys.exit("the server did not get ready")


def run(command: list[str | Path], folder: Path, stdin: str = "") -> str:
    """What a program prints; stop if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {command}\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
