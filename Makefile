# `make demo` and `make test` do all their own set-up: a virtual environment, the pinned torch, the package.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: demo test slow fuzz lint docs figure clean

demo: $(VENV)/installed
	$(BIN)/fimsde demo --out demo

test: $(VENV)/installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

TABLES ?= 20000
FIRST ?= 0
fuzz: $(VENV)/installed-dev  # random tables through every analysis; make fuzz FIRST=1234 TABLES=1 runs one again
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --first $(FIRST) --tables $(TABLES)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html

figure: $(VENV)/installed  # the picture of README.md; the example also leaves a table and a report
	mkdir -p docs/_build/figure
	cd docs/_build/figure && $(abspath $(BIN))/python ../../../examples/quickstart.py
	cp docs/_build/figure/quickstart.png docs/_static/quickstart.png

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) torch
	$(PIP) --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) torch
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) demo docs/_build
