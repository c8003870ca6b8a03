# `make` lists what can be done. Needed: make, Python 3.11 or newer, and a package registry.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PG ?=
REF ?=
KILLS ?= 100
LANE_KILLS ?= 500
HOMES_KILLS ?= 300
DELIVERIES ?= 1000
DELIVERIES_KILLS ?= 200
ROWS ?= 100000
SEED ?= 1
# Processes for the tests, twice as many as processors: for half of its time a test waits for others
WORKERS ?= $(shell echo $$(( $$(nproc) * 2 )))
ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
# uv from the machine when there is one that works, else one of our own
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .uv/bin/uv)
UV_FILE := $(filter .uv/bin/uv,$(UV))
SYSTEM_PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p --version >/dev/null 2>&1 && echo $$p && break; done)
export UV_PYTHON_DOWNLOADS = never
# Distributions build their Python with profile-guided optimization: a third faster than one built without, as by pyenv
PACKAGED_PYTHON := $(shell for p in /usr/bin/python3.11 /usr/bin/python3.12 /usr/bin/python3.13; do \
	$$p -c 'import asyncio, ctypes, multiprocessing, sqlite3, ssl' >/dev/null 2>&1 && echo $$p && break; done)
ifneq ($(PACKAGED_PYTHON),)
export UV_PYTHON ?= $(PACKAGED_PYTHON)
endif
# Tests start hundreds of processes: without bytecode each would compile all it imports, for half a second
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## Real work through the engine, a worker killed in the middle, nothing lost
	@$(BIN)/penstock demo $(ARGS)

.PHONY: test
test: $(READY) ## Every test on the embedded PostgreSQL 18 (PG=15: on the installed 15; ARGS=: more for pytest)
	@scripts/pgbouncer.sh
	@PG=$(PG) $(BIN)/pytest --in-parallel $(WORKERS) --contract-report=build/contract-report.json $(ARGS)

.PHONY: lint
lint: $(READY) ## Style, types and layers: ruff, mypy strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@mkdir -p build
	@$(BIN)/lint-imports --no-cache >build/imports.log 2>&1 || { cat build/imports.log; exit 1; }
	@tail -n 2 build/imports.log

.PHONY: bench
bench: $(READY) ## Penstock beside its peers, one table of ratios
	@$(UV) sync --quiet --locked --all-extras --group bench
	@$(BIN)/python -m bench $(ARGS)

.PHONY: bench-against
bench-against: $(READY) ## This tree beside that of a commit, in interleaved pairs: is it slower? (REF= ARGS=)
	@test -n "$(REF)" || { echo "Name what to compare with, a commit, branch or tag: make bench-against REF=main"; exit 2; }
	@$(BIN)/python -m bench.against $(REF) $(ARGS)

.PHONY: chaos
chaos: $(READY) ## Kill workers, the batch lane and deliveries; check the history (KILLS= LANE_KILLS= DELIVERIES= SEED=)
	@$(BIN)/python -m tests.crash.chaos --kills $(KILLS) --lane-kills $(LANE_KILLS) --deliveries $(DELIVERIES) \
		--deliveries-kills $(DELIVERIES_KILLS) --seed $(SEED) $(ARGS)

.PHONY: chaos-homes
chaos-homes: $(READY) ## Kill the workers of fifty homes; nothing of one may reach another (HOMES_KILLS= SEED=)
	@$(BIN)/python -m tests.crash.homes --requests 5000 --homes 50 --kills $(HOMES_KILLS) --seed $(SEED) $(ARGS)

.PHONY: chaos-deliveries
chaos-deliveries: $(READY) ## Kill those who send, and lose replies; everybody is told, nobody twice (DELIVERIES= SEED=)
	@$(BIN)/python -m tests.crash.deliveries --deliveries $(DELIVERIES) --kills $(DELIVERIES_KILLS) --seed $(SEED) $(ARGS)

.PHONY: takeover
takeover: $(READY) ## Take an outbox over and give it back while everybody works on it (ROWS= SEED=)
	@$(BIN)/python -m tests.crash.takeover --rows $(ROWS) --seed $(SEED) $(ARGS)

.PHONY: mutants
mutants: $(READY) ## Remove one guard at a time; a test must fail for each
	@$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: docs
docs: $(READY) ## Write the reference from the code, and the conformance page from the last `make test`
	@$(BIN)/python scripts/docs.py $(ARGS)

.PHONY: clean
clean: ## Remove what make made: environment, caches, reports
	@rm -rf .venv .uv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml uv.lock | $(UV_FILE)
	@echo "Installing the locked packages into .venv ..."
	@$(UV) sync --locked --all-extras --compile-bytecode --quiet
	@$(BIN)/python -m compileall -q -j 0 src
	@mkdir -p build
	@touch $@

.uv/bin/uv:
	@test -n "$(SYSTEM_PYTHON)" || { echo "Python is missing: install Python 3.11 or newer."; exit 1; }
	@echo "uv is missing; installing it into .uv ..."
	@{ $(SYSTEM_PYTHON) -m venv .uv >/dev/null 2>&1 && .uv/bin/python -m pip install --quiet uv; } \
		|| { rm -rf .uv && $(SYSTEM_PYTHON) -m pip install --quiet --target .uv uv; } \
		|| { rm -rf .uv && echo "uv could not be installed. See https://docs.astral.sh/uv/ and run make again." && exit 1; }
