# Assumes python3 (3.11 to 3.14, with venv), Java 17 or newer, and make; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile
# Bytecode of all packages, by all cores, which pip leaves to one, and the loops that a first fleet would compile.
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib penstock engine operators plans || true; \
	$(BIN)/python -m penstock.engine.planning.compile_loops

.PHONY: demo check check-portable test test-browser mutants lint format docs bench dist clean

## Plan the bundled topologies in this process and in the workers of a local Spark, compare, and run one.
demo: .venv/installed
	$(BIN)/python -m penstock.engine.examples.demo
	@echo
	@echo "Three things to try:"
	@echo "  $(BIN)/penstock explain engine/examples/examples.jsonl --topology fraud-detection"
	@echo "  $(BIN)/penstock draw engine/examples/examples.jsonl --topology fraud-detection --to build/plan.html"
	@echo "  $(BIN)/penstock run engine/examples/word_count.py"

PYTEST := $(BIN)/python -m pytest -q -o console_output_style=count --basetemp=build/pytest
## Lint, formatting, types, and the tests that start no JVM and are not slow, in some four minutes on two
## cores. Two processes share the tests one by one.
check: lint | build
	$(PYTEST) -m 'not spark and not flink and not browser and not slow' --numprocesses=2 --dist=worksteal tests

## The tests of `check`, with /proc and the calls that only Linux has hidden from Penstock.
check-portable: .venv/installed-dev | build
	PENSTOCK_WITHOUT_LINUX=1 $(PYTEST) -m 'not spark and not flink and not browser and not slow' \
		--numprocesses=2 --dist=worksteal tests

## Lint, formatting, types and all tests, in two processes: one runs all files that share a Spark session
## (tests/conftest.py), the other one the rest, file by file.
test: lint | build
	$(PYTEST) -m 'not browser' --numprocesses=2 --dist=loadfile --no-loadscope-reorder tests

## Pages in Debian's Chromium (apt-get install chromium chromium-driver); screenshots in build/screenshots.
test-browser: .venv/installed-dev | build
	$(PIP) --editable '.[browser]'
	$(PYTEST) -m browser tests/browser

## Changes of one token that the tests do not notice; see tests/mutants.py. MUTANTS="--count 20 plans/topology"
mutants: .venv/installed-dev
	$(BIN)/python -m tests.mutants $(MUTANTS)

build:
	mkdir -p $@

lint: .venv/installed-dev
	$(BIN)/python -m zensical build --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m tests.api_changes
	$(BIN)/mypy

format: .venv/installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

## The generated pages and pictures of docs/, and the site in build/site (python -m http.server -d build/site).
docs: .venv/installed-dev
	$(BIN)/python -m tests.reference_pages docs
	$(BIN)/penstock draw engine/examples/examples.jsonl --topology fraud-detection --to docs/fraud-detection.svg
	$(BIN)/penstock draw engine/examples/examples.jsonl --topology events-etl --layer stream_graph --to docs/events-etl.svg
	$(BIN)/penstock draw engine/examples/examples.jsonl --topology word-count --to docs/word-count.svg
	$(BIN)/penstock draw engine/examples/examples.jsonl --topology clickstream-sessions --to docs/clickstream-sessions.svg
	$(BIN)/penstock draw engine/examples/examples.jsonl --topology order-enrichment --to docs/order-enrichment.svg
	$(BIN)/penstock draw engine/examples/examples.jsonl --topology fraud-detection --layer execution_graph --vertex 2 --to docs/score-by-rules.svg
	$(BIN)/python -m benchmarks.scaling draw benchmarks/scaling.csv docs/scaling.svg
	$(BIN)/python -m benchmarks.stream_hour draw benchmarks/stream_hour.csv docs/stream-hour.svg
	$(BIN)/python -m tests.browser.gallery docs
	$(BIN)/python -m zensical build --clean --strict

## Operators a second of every pass and layer, and edges a second; see benchmarks/.
bench: .venv/installed
	$(BIN)/python -m benchmarks.bench_planning
	$(BIN)/python -m benchmarks.bench_edges

## The archives of a release in dist/, and its wheel tried in clean environments: see CONTRIBUTING.md.
dist: .venv/installed-dev
	$(BIN)/python -m tests.make_release

clean:
	rm -rf .venv build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 15) or sys.exit("Penstock needs Python 3.11 to 3.14")'
	$(PYTHON) -m venv .venv

# A second try, because a registry may drop a connection; what the first one said stays on the screen.
.venv/installed: pyproject.toml | .venv/bin/python
	@echo "Installing into .venv; this takes a few minutes the first time."
	$(PIP) --editable . || $(PIP) --editable .
	$(COMPILE)
	touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	@echo "Installing into .venv; this takes a few minutes the first time."
	$(PIP) --editable '.[dev,flink]' || $(PIP) --editable '.[dev,flink]'
	$(COMPILE)
	touch .venv/installed $@
