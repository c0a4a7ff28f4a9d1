# `make` lists what there is to make. A fresh clone needs Python 3.10 or newer and make, nothing else:
# the targets build .venv themselves, and again when pyproject.toml or the front end changes.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
ROOT_MAY := $(if $(filter 0,$(shell id -u)),--allow-root)
# Tests run in processes that share nothing: `make test PYTEST_ARGS=-n0` runs them in one.
AT_ONCE := -n logical --maxprocesses 4 --dist worksteal
FRONTEND := $(wildcard batchai_magics/widgets/frontend/*/* package*.json)
export PATH := $(BIN):$(PATH)
# Containers often set it; then each of the thousands of processes of a run compiles the package again.
unexport PYTHONDONTWRITEBYTECODE
# Then a benchmark's reference writes each token of its JSON with a system call of its own.
unexport PYTHONUNBUFFERED

CLIENT_FOLDERS := tests/server/clients tests/records/programs tests/azureml/clients tests/training/programs tests/backends/ray/programs
CLIENTS := $(patsubst %.txt,.clients/%,$(notdir $(wildcard $(CLIENT_FOLDERS:=/*.txt)))) .clients/js

.DEFAULT_GOAL := help
.PHONY: help clients demo test test-fast lint recipes lab docs docs-links bench publish-as mutants clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/demo.installed  ## run the quickstart notebook: 2 nodes, 4 processes, results in out/
	@$(BIN)/python notebooks/run.py --out out

test: $(VENV)/test.installed $(if $(CI),clients)  ## run all tests
	@$(BIN)/python -m pytest -q $(AT_ONCE) $(PYTEST_ARGS)

clients: $(addsuffix .installed,$(CLIENTS))  ## make the genuine programs that tests drive, each with a venv; npm's with Node

test-fast: $(VENV)/test.installed  ## run the tests that start no process and no browser: a minute
	@$(BIN)/python -m pytest -q $(AT_ONCE) -m "not slow" --hypothesis-profile=quick $(PYTEST_ARGS)

lint: $(VENV)/dev.installed node_modules/installed  ## check style, types and, where npm is there, the front end
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@if command -v npm >/dev/null; then npm run --silent check; else echo "lint: the front end is not checked: no npm"; fi

recipes: $(VENV)/recipes.installed  ## run the tutorials of PyTorch and Keras: several GB of packages, results in out/
	@mkdir -p out
	@for name in 02_pytorch_ddp 08_keras; do \
	  $(BIN)/jupyter execute --output=$(CURDIR)/out/$$name.ipynb notebooks/$$name.ipynb || exit 1; done

lab: $(VENV)/demo.installed  ## open the quickstart in JupyterLab
	@$(BIN)/jupyter lab $(ROOT_MAY) notebooks/01_quickstart.ipynb

docs: $(VENV)/docs.installed  ## build the documentation site in build/docs; warnings are errors
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs . build/docs
	@echo "make: the site is build/docs/index.html"

docs-links: $(VENV)/docs.installed  ## check the external links of the documentation: needs the network
	@$(BIN)/python -m sphinx -q -b linkcheck -c docs . build/links

bench: $(VENV)/bench.installed  ## measure, and print one table
	@$(BIN)/python benchmarks/run.py

publish-as:  ## name the GitHub account that publishes: badge and addresses follow, as in make publish-as OWNER=me
	@$(PYTHON) .ci/publish.py owner "$(OWNER)"

mutants: $(VENV)/mutants.installed node_modules/installed  ## try small errors in the code that decides: hours; goes on where it stopped
	@$(BIN)/python -m tests.mutants $(MUTANTS)

clean:  ## remove everything that make has made
	rm -rf $(VENV) .clients node_modules mutants out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf batchai_magics/widgets/static
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/%.installed: pyproject.toml $(FRONTEND) | $(VENV)/bin/pip
	@echo "make: installing batchai-magics[$*] into $(VENV)"
	@$(BIN)/python .ci/install.py '$*'
	@touch $@

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "make: $(PYTHON) is not Python 3.10 or newer: name one with make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "make: $(PYTHON) has no ensurepip: install python3-venv (Debian: apt install python3-venv)"; exit 1; }
	@echo "make: creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

vpath %.txt $(CLIENT_FOLDERS)

.clients/%.installed: %.txt
	@echo "make: installing the genuine $*"
	@mkdir -p $(@D) && $(PYTHON) -m venv .clients/$*
	@.clients/$*/bin/python -m pip --disable-pip-version-check install --quiet $$(sed -n 's/^# pip: //p' $<) -r $<
	@touch $@

.clients/js.installed: tests/server/clients/js/package-lock.json
	@mkdir -p .clients/js && cp .npmrc tests/server/clients/js/package*.json .clients/js
	@if command -v npm >/dev/null; then \
	  echo "make: installing the genuine clients for JavaScript"; \
	  cd .clients/js && npm ci --silent --ignore-scripts --no-audit --no-fund; fi
	@touch $@

node_modules/installed: package-lock.json
	@if command -v npm >/dev/null; then npm ci --silent --ignore-scripts --no-audit --no-fund; fi
	@mkdir -p $(@D) && touch $@
