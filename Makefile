# What a newcomer needs: `make demo` and `make test`. Each target makes the environment itself when it is missing or old.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.up-to-date
DATA   ?= ../shared/data

.PHONY: help demo test check bench bench-speed docs clean
help:
	@echo "make demo   train on the shipped corpus and tag some documents"
	@echo "make test   run all tests"
	@echo "make check  formatting, lint, types, the rule which room imports which"
	@echo "make bench  our models beside other programs, which it installs, on the corpora in DATA=$(DATA); takes hours"
	@echo "make bench-speed  how fast tf-idf, reading, metrics and neighbours are beside what others take"
	@echo "make docs   renew the tables in README and docs that the code makes"

$(STAMP): pyproject.toml constraints.txt
	@echo "==> setting up $(VENV) with $(PYTHON) (a minute or two, once)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@echo "==> demo: training on the shipped corpus"
	@$(BIN)/xmtc demo

test: $(STAMP)
	@echo "==> tests"
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder

check: $(STAMP)
	@echo "==> formatting and lint"
	@$(BIN)/ruff format --check src tests benchmarks tools examples
	@$(BIN)/ruff check src tests benchmarks tools examples
	@echo "==> types"
	@$(BIN)/mypy
	@echo "==> rooms"
	@$(BIN)/lint-imports
	@echo "==> quick start"
	@$(BIN)/python tools/startup_gate.py

bench: $(STAMP)
	@echo "==> our models beside other programs, on the corpora in $(DATA)"
	@$(BIN)/python -m benchmarks.peers.programs --data $(DATA)
	@$(BIN)/python tools/make_docs.py

bench-speed: $(STAMP)
	@echo "==> speed beside others, on the corpora in $(DATA)"
	@$(BIN)/python -m benchmarks.speed.tfidf --data $(DATA)
	@$(BIN)/python -m benchmarks.speed.reading --data $(DATA)
	@$(BIN)/python -m benchmarks.speed.metrics
	@$(BIN)/python -m benchmarks.speed.knn --data $(DATA)

docs: $(STAMP)
	@echo "==> docs: the tables that the code makes"
	@$(BIN)/python tools/make_docs.py

clean:
	rm -rf $(VENV) build dist xmtc-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
