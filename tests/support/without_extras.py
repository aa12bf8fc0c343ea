"""Tests that need more than the core: with the core alone they are left out, by name, and a line says so.

A test, or a model of the contract suite, says `@pytest.mark.needs("torch")`; whole files and folders stand in NEEDS.
Only what is named is left out: a test of the core that cannot import something fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from xmtc.extras import missing

ROOT = Path(__file__).parent.parent.parent

#: library -> files and folders, none of which can do without it
NEEDS = {
    "torch": (
        "tests/nn", "tests/models/aplc_xlnet", "tests/models/attentionxml", "tests/models/c2ae",
        "tests/models/lightxml", "tests/models/rank_ae", "tests/models/seq2seq", "tests/models/treaderxml",
        "tests/models/x_transformer", "tests/models/xml_cnn", "tests/models/test_neighbour_vectors.py",
        "tests/text/test_subword_tokenizer.py",
        "tests/test_docs.py", "tests/contract/test_golden.py", "tests/support/tiny_encoders.py",
        "tests/support/tiny_seq2seq.py", "tests/support/toy_learner.py", "README.md", "docs",
        "src/xmtc/nn", "src/xmtc/models/aplc_xlnet", "src/xmtc/models/attentionxml", "src/xmtc/models/c2ae",
        "src/xmtc/models/lightxml", "src/xmtc/models/rank_ae", "src/xmtc/models/seq2seq", "src/xmtc/models/treaderxml",
        "src/xmtc/models/x_transformer", "src/xmtc/models/xml_cnn",
    ),
    "tokenizers": (
        "tests/text/test_word_tokenizer.py", "tests/text/test_mean_embeddings.py", "tests/text/test_embedding_table.py",
        "src/xmtc/text/word_tokenizer.py", "src/xmtc/text/subword_tokenizer.py", "src/xmtc/text/mean_embeddings.py",
        "src/xmtc/text/embedding_table.py",
    ),
    "faiss": ("tests/search/test_dense_index.py", "src/xmtc/search/dense_index.py"),
    "rdflib": ("tests/corpus/test_skos.py",),
    "mkdocs": ("tests/test_site.py",),
    "fastapi": ("tests/serve", "tests/support/serving.py", "src/xmtc/serve"),
    "schemathesis": ("tests/serve/test_schema.py",),
    "sklearn": (
        "tests/integrations/test_sklearn.py", "src/xmtc/integrations/sklearn.py",
        "src/xmtc/integrations/sklearn_data.py",
    ),
    "huggingface_hub": ("tests/test_hub.py",),
    "ray": ("tests/cluster",),
    "mlflow": ("tests/integrations/test_mlflow.py", "src/xmtc/integrations/mlflow.py"),
    "annif": ("src/xmtc/integrations/annif",),  # `make test-annif` runs it
}  # fmt: skip
MISSING = {library for library in (*NEEDS, "datasets", "nbclient", "openpyxl", "pandas", "Stemmer") if missing(library)}
LEFT_OUT = [ROOT / path for library in NEEDS if library in MISSING for path in NEEDS[library]]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs(*libraries): left out where one of these libraries is not installed")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say what is left out."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if MISSING and reporter is not None and not hasattr(session.config, "workerinput"):
        paths = " ".join(path.relative_to(ROOT).as_posix() for path in LEFT_OUT)
        reporter.write_line(f"without {', '.join(sorted(MISSING))}: left out are tests marked with them, and {paths}")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files and folders."""
    return True if any(collection_path.is_relative_to(path) for path in LEFT_OUT) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out marked tests."""
    wanting = {item for item in items for mark in item.iter_markers("needs") if MISSING & set(mark.args)}
    if wanting:
        config.hook.pytest_deselected(items=list(wanting))
        items[:] = [item for item in items if item not in wanting]
