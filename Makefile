# `make demo`, `make test` and `make proofs` do all the set-up on a fresh machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test proofs clean

demo: $(VENV)/installed
	PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh

test: $(VENV)/installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

proofs: $(VENV)/installed-prove
	$(BIN)/python proofs/smt/decide.py

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

clean:
	rm -rf $(VENV) build dist
