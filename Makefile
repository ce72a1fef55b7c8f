# Everything runs in a virtual environment of its own, made on first use; only Python and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TEST_WORKERS ?= 2

.PHONY: demo quick test test-system test-research test-all check benchmark results-quick clean

demo: $(INSTALLED)
	$(BIN)/axiompath demo --out out/demo

test: $(READY)
	$(BIN)/python -m pytest -n $(TEST_WORKERS)

# One case of every test that is not long, with few examples: for use while you edit.
quick: $(READY)
	AXIOMPATH_EXAMPLES=few $(BIN)/python -m pytest -n $(TEST_WORKERS)

# What takes processes, browsers or whole pages of the documentation.
test-system: $(READY)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -m "system and not slow"

# The experiments behind the pages of results, which are not part of what is installed.
test-research: $(READY)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) research/tests

test-all: $(READY)
	AXIOMPATH_EXAMPLES=all $(BIN)/python -m pytest -n $(TEST_WORKERS) -m "slow or not slow" tests research/tests

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mkdocs build --quiet --strict

# Every claim about speed, measured; the tables of docs/ are written anew. Hours, and a machine that nobody else uses.
benchmark: $(READY)
	failed=0; for script in $(filter-out benchmarks/tables.py,$(wildcard benchmarks/*.py)); do \
	$(BIN)/python $$script --docs docs || failed=1; done; exit $$failed

# A slice of every table of docs/results.md and docs/field.md, within stated bounds; under five minutes. AXIOMPATH_DATA
# names the data; `make test-all` runs it, too.
results-quick: $(READY)
	$(BIN)/python -m research reproduce quick --docs docs --out out/quick

# What users install; what it runs is compiled as it runs.
$(INSTALLED): pyproject.toml setup.py constraints.txt $(wildcard src/axiompath/native/*.pyx)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $(INSTALLED)

# The tools of tests and docs besides, and everything compiled, so that no test waits for it.
$(READY): $(INSTALLED)
	$(PIP) -e ".[dev]"
	$(BIN)/axiompath warmup
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build src/*.egg-info
