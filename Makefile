# Everything runs in a virtual environment of its own, made on first use; only Python and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TEST_WORKERS ?= 2

.PHONY: demo quick test test-system test-research test-native test-all check benchmark results-quick clean

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

# The kernels, built beside the usual ones with checks of every index and address and of undefined behaviour.
CHECKED := build/debug
test-native: $(READY)
	AXIOMPATH_DEBUG=1 $(BIN)/python setup.py -q build_ext --build-lib $(CHECKED) --build-temp build/debug-objects
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	UBSAN_OPTIONS=halt_on_error=1 $(BIN)/python tests/support/native_checked.py $(CHECKED)/axiompath/native

test-all: $(READY) test-native
	AXIOMPATH_EXAMPLES=all $(BIN)/python -m pytest -n $(TEST_WORKERS) -m "slow or not slow" tests research/tests

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Every claim about speed, measured; the tables of docs/ are written anew. Hours, and a machine that nobody else uses.
benchmark: $(READY)
	failed=0; for script in $(filter-out benchmarks/tables.py,$(wildcard benchmarks/*.py)); do \
	$(BIN)/python $$script --docs docs || failed=1; done; exit $$failed

# A slice of every table of docs/results.md and docs/field.md, within stated bounds; under five minutes. AXIOMPATH_DATA
# names the data; `make test-all` runs it, too.
results-quick: $(READY)
	$(BIN)/python -m research reproduce quick --docs docs --out out/quick

# What users install; the kernels are compiled here, once.
$(INSTALLED): pyproject.toml setup.py constraints.txt $(wildcard src/axiompath/native/*.p[yx][xd] src/axiompath/native/*.h)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $(INSTALLED)

# The tools of tests and docs besides; the kernels are there already.
$(READY): $(INSTALLED)
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['dev'], sep='\n')" > $(VENV)/dev.txt
	$(PIP) -r $(VENV)/dev.txt
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build src/*.egg-info
