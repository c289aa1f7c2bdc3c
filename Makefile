# `make demo`, `make test` and `make proofs` do all the set-up on a fresh machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test proofs lint clean

demo: $(VENV)/installed
	PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

test: $(VENV)/installed-test
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

proofs: $(VENV)/installed-prove
	$(BIN)/python proofs/smt/decide.py

lint: $(VENV)/installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@ $(VENV)/installed

$(VENV)/installed-prove: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[prove]'
	touch $@ $(VENV)/installed

$(VENV)/installed-lint: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[lint]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist
