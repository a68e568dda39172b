# Every target does its own set-up: a virtual environment, the pinned torch, the package with the extras it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: demo test slow faults fuzz lint dependencies docs check-docs package browser figure tables clean

demo: $(VENV)/installed
	$(BIN)/fimsde demo --out demo --overwrite

test: $(VENV)/installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

slow: $(VENV)/installed-dev $(VENV)/installed-docs
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

faults: $(VENV)/installed-dev  # every seeded fault must be noticed by the default tests; rewrites tests/faults/REPORT.md
	cd tests && $(abspath $(BIN))/python -m faults.run

TABLES ?= 20000
FIRST ?= 0
fuzz: $(VENV)/installed-dev  # random tables through every analysis; make fuzz FIRST=1234 TABLES=1 runs one again
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --first $(FIRST) --tables $(TABLES)

lint: $(VENV)/installed-dev dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

dependencies: $(VENV)/installed-dev  # nothing undeclared, nothing unused; the second line is for users, without our tools
	$(BIN)/deptry src tests benchmarks examples docs docs/_ext
	$(BIN)/deptry src --optional-dependencies-dev-groups test,dev,docs

docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "the documentation is docs/_build/html/index.html"

check-docs: docs $(VENV)/installed-dev  # pages complete, offline, and as wide as a window: the last in a browser
	FIMSDE_SITE=docs/_build/html $(BIN)/python -m pytest -m slow tests/test_docs_build.py

package: $(VENV)/installed-dev  # wheel and source archive: complete, installed in clean environments, used
	rm -f dist/fimsde-*
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tests/packages.py dist

browser:  # Chromium for the tests that look at pages, on Debian and as root; other systems: any Chromium on the path
	command -v chromium || { apt-get update && DEBIAN_FRONTEND=noninteractive \
	  apt-get install --yes --no-install-recommends chromium chromium-driver fonts-liberation; }

tables: $(VENV)/installed  # the figures in README.md, docs/ and the model card, from benchmarks/results; says what is stale
	cd benchmarks && $(abspath $(BIN))/python -m pages

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
	rm -rf $(VENV) docs/_build
	rm -f dist/fimsde-*
	test ! -e demo/.fimsde.json || rm -rf demo  # another folder of that name stays
