# `make book` and `make test` are all a fresh machine needs; both create .venv by themselves.
.DELETE_ON_ERROR:
.PHONY: book test lint types unit site bench browser clean

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
PEERS := _build/bench/peers
# Two threads in one process help little here and hurt much on a busy machine.
export OMP_NUM_THREADS ?= 1

book: $(READY)
	$(BIN)/heatcheck build

test: lint types unit site

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -m "not site"

# The smoke book is built beside the reader's own, so a test never replaces his results.
site: $(READY) browser
	$(BIN)/heatcheck build --preset smoke --into _build/smoke
	HEATCHECK_SITE=_build/smoke/_build/html $(BIN)/pytest -m site

bench: $(PEERS)/ready
	PYTHONPATH=$(PEERS) $(BIN)/python -m tests.benchmarks.peers.run

# Tools that are compared with but not depended on: beside .venv, not in it.
$(PEERS)/ready: tests/benchmarks/peers/requirements.txt $(READY)
	rm -rf $(PEERS)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --target $(PEERS) -r $<
	touch $@

browser:
	@tests/site/need_chromium.sh

# The environment follows the lock file: a change of pins installs anew, nothing else does.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "heatcheck needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --editable .
	touch $@

clean:
	rm -rf _build .cache book/chapters book/results/*/latest
