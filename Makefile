# Every target sets up what it needs. PYTHON picks the interpreter for a new environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Each file by one process, in the order of tests/conftest.py: those that take longest first.
SHARED := --numprocesses auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help test test-all check format demo docs site package clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/'

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest $(SHARED)

test-all: $(READY)  ## also the exhaustive tests: more kills, more and new random examples
	$(BIN)/python -m pytest $(SHARED) --all --hypothesis-profile explore --moments 20 \
		--override-ini faulthandler_timeout=1800

check: $(READY)  ## formatting, lint, strict types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## rewrite the files in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(READY)  ## train a small translator on a built-in corpus, and try it
	$(BIN)/transduce demo

docs: $(READY)  ## run every command of the documents for real, in a quarter of an hour
	$(BIN)/python -m tests.project.documents docs/TUTORIAL.md
	$(BIN)/python -m tests.project.documents README.md docs/PYTHON.md

site: $(READY)  ## build the documents and a reference of the Python API into build/site
	$(BIN)/python docs/site/build.py
	@echo 'open build/site/index.html in a browser'

package: $(READY)  ## build a wheel and an sdist into dist, and check them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

clean:  ## remove the environment and the caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

# Built again only when the pins change; marked last, so that an interrupted set-up starts over.
$(READY): constraints.txt
	@echo 'setting up $(VENV): this takes some minutes the first time, and prints nothing meanwhile'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip hatchling editables
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@
