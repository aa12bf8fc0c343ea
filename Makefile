# What a newcomer needs: `make demo` and `make test`. Each target makes the environment itself when it is missing or old.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.up-to-date
DATA   ?= ../shared/data

# Of the core's tests, enough to say that it works without any extra: every method's contract, the command line, what is
# said where an extra is missing, recipes by name.
CORE_TESTS := tests/contract tests/cli/test_commands.py tests/cli/test_compare.py tests/cli/test_explain.py \
              tests/cli/test_user_errors.py tests/test_extras.py tests/test_recipes.py tests/text/test_word_rules.py
# What the extra `neural` adds, as far as a clean installation could break it: networks, encoders, dense neighbours.
NEURAL_TESTS := tests/contract/test_contract.py tests/search/test_dense_index.py tests/text/test_word_tokenizer.py \
                -k 'attentionxml or lightxml or dense_index or word_tokenizer'
# The inner loop: no neural method, and of the contract three that compile little.
FAST_TESTS := tests/corpus tests/text tests/labelspace tests/search tests/evaluation tests/test_extras.py \
              tests/test_recipes.py tests/test_storage.py tests/test_errors.py tests/test_predictions.py
FAST_MODELS := prior or knn or dismec

.PHONY: help demo test test-fast test-core test-neural test-pythons test-lowest test-cluster test-annif test-image check package bench bench-speed bench-serve docs clean
help:
	@echo "make demo   train on the shipped corpus and tag some documents"
	@echo "make test   run all tests"
	@echo "make test-fast  in a minute, for the inner loop: no neural method, three of the contract"
	@echo "make test-core  the wheel without any extra, in a venv of its own: the core's tests"
	@echo "make test-neural  the wheel with the extra neural, in a venv of its own: a network, an encoder"
	@echo "make test-pythons  the same with every Python from 3.11 to 3.13 that there is (minutes; not in CI)"
	@echo "make test-lowest  the same with the oldest libraries that the core allows (minutes; not in CI)"
	@echo "make test-cluster  three nodes of Ray, and one that is lost (minutes; not in CI)"
	@echo "make test-annif  the core installs and works beside Annif, as its backend and as its server (minutes; not in CI)"
	@echo "make test-image  the steps of the Dockerfile, then on a read-only root (root only, minutes; not in CI)"
	@echo "make check  formatting, lint, types, the rule which room imports which"
	@echo "make bench  our models beside other programs, which it installs, on the corpora in DATA=$(DATA); takes hours"
	@echo "make bench-speed  how fast tf-idf, reading, metrics and neighbours are beside what others take"
	@echo "make bench-serve  the HTTP server: speed, overload, its end and new models under load; takes 20 minutes"
	@echo "make docs   renew the tables in README and docs that the code makes; the pages as a site, in site/"
	@echo "make package  sdist and wheel, in dist/, checked"

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

test-fast: $(STAMP)
	@echo "==> quick tests"
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder $(FAST_TESTS)
	@$(BIN)/python -m pytest tests/contract/test_contract.py -k "$(FAST_MODELS)"

test-core: $(STAMP)
	@echo "==> the core alone"
	@tools/wheel_tests.sh $(BIN)/python .venv-core constraints.txt core $(CORE_TESTS)

test-neural: $(STAMP)
	@echo "==> the wheel with the extra neural"
	@tools/wheel_tests.sh $(BIN)/python .venv-neural constraints.txt neural $(NEURAL_TESTS)

# Not a part of CI: kernels are compiled anew for each Python, which alone takes minutes.
test-pythons: $(STAMP)
	@for version in 3.11 3.12 3.13; do \
	    for python in python$$version $$HOME/.pyenv/versions/$$version.*/bin/python; do \
	        $$python -c '' 2> /dev/null || continue; \
	        echo "==> the core alone, Python $$version"; \
	        tools/wheel_tests.sh $$python .venv-core-$$version constraints.txt core $(CORE_TESTS) || exit 1; \
	        break; \
	    done; \
	done

# Not a part of CI, for the same reason.
test-lowest: $(STAMP)
	@echo "==> the core alone, the oldest libraries"
	@tools/wheel_tests.sh $(BIN)/python .venv-core-lowest tools/lowest.txt core $(CORE_TESTS)

# Not a part of CI: two minutes on an idle machine, and on a busy one Ray's nodes answer too late now and then. In a process
# of its own, since one that was connected to another cluster cannot be to these.
test-cluster: $(STAMP)
	@echo "==> three nodes of Ray on this machine"
	@XMTC_CLUSTER_TESTS=1 $(BIN)/python -m pytest -n 0 tests/cluster/test_three_nodes.py

test-annif: $(STAMP)
	@echo "==> the core beside Annif"
	@$(BIN)/python tools/check_annif.py
	@echo "==> Annif asks our server"
	@$(BIN)/python tools/check_annif_http.py

test-image:
	@echo "==> the image without Docker"
	@$(PYTHON) tools/check_image.py

check: $(STAMP)
	@echo "==> formatting and lint"
	@$(BIN)/ruff format --check src tests benchmarks tools examples conftest.py
	@$(BIN)/ruff check src tests benchmarks tools examples conftest.py
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

bench-serve: $(STAMP)
	@echo "==> the server under load, on debtags in $(DATA)"
	@$(BIN)/python -m benchmarks.serve --data $(DATA)

docs: $(STAMP)
	@echo "==> docs: the tables that the code makes"
	@$(BIN)/python tools/make_docs.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "site/index.html"

package: $(STAMP)
	@echo "==> sdist and wheel"
	@$(BIN)/python tools/package.py

clean:
	rm -rf $(VENV) .venv-core* .venv-neural site build dist xmtc-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
