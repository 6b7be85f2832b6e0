# Everything a developer or CI runs. Each target sets up what it needs; `make` alone lists them.

# The first Python on the path that is new enough, if none is named.
PYTHON ?= $(firstword $(foreach candidate,python3 python3.13 python3.12 python3.11,$(shell \
  $(candidate) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(candidate))) python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 3
PYTEST_ARGS ?=

# pyright from its wheel and node from its wheel, both pinned in requirements.lock: nothing is looked up or fetched.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-postgres check format lock soak secrets clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything, once

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "foldahead needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "[1/3] making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] installing the packages of requirements.lock (about a minute, once)"
	@$(BIN)/python -m pip install -qq --no-deps --require-hashes --only-binary :all: -r requirements.lock
	@echo "[3/3] installing foldahead"
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --no-index --editable .
	@touch $@

demo: setup ## a session compacted ahead of time, on this machine, without keys or services
	@$(BIN)/foldahead demo

# Tests with real processes may run out of time beside each other on a crowded machine: what failed is run once more,
# alone, and says so. What is broken fails again.
test: check ## lint, types and all tests
	$(BIN)/python -m pytest -n $(JOBS) --dist loadscope $(PYTEST_ARGS) || { \
	  echo "some tests failed beside each other: these once more, alone"; \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(PYTEST_ARGS); }

test-postgres: setup ## all tests that use a database on PostgreSQL: one of their own, or the server of DATABASE_URL
	$(BIN)/python -m pytest -n $(JOBS) --dist loadscope --database postgres $(PYTEST_ARGS)

check: setup ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: setup ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: setup ## ten minutes of hypothesis and a minute for each kind of input; prints the seed (SEED=n repeats it)
	$(BIN)/python -m tests.soak $(if $(SEED),--seed $(SEED))

COMPILE = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --custom-compile-command "make lock"

lock: ## bring the lock files up to date with pyproject.toml (needs uv)
	$(COMPILE) --extra worker --extra dev --output-file requirements.lock
	$(COMPILE) --extra worker --constraint requirements.lock --output-file deploy/requirements.lock
	@! grep -n '://' requirements.lock deploy/requirements.lock || { echo "a lock file names a host"; exit 1; }

secrets: ## make the passwords that docker-compose.yml reads, where there are none yet
	@bash deploy/make-secrets.sh

clean: ## remove what was made here
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
	find shared worker tests -name __pycache__ -type d -prune -exec rm -rf {} +
