# Every target sets up .venv by itself and uses it again as long as nothing changed.

.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON_VENV := .venv/bin/python
# How long `make soak` runs, in seconds.
TIME ?= 300
# How many seeds `make soak` simulates at least.
SEEDS ?= 2000
# How many tests run at once: a number, or auto for one per core.
JOBS ?= auto
# Passed on to pytest, as in: make test ARGS="-k lint -x"
ARGS ?=

.PHONY: help demo test soak bench lint fmt docs clean venv

help: ## Show this list
	@printf 'Omnigraph: a typed property-graph database on Lance\n\n'
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@printf '\nThe first time, .venv is set up; that takes a minute or two.\n'

demo: venv ## A graph of a million nodes and edges: load, search, branch, change, merge
	@PATH="$(CURDIR)/.venv/bin:$$PATH" scripts/demo

# Bytecode is cached even where the environment says not to: tests start hundreds of processes, and
# each would compile the package again. `make clean` removes it.
test soak: export PYTHONDONTWRITEBYTECODE =

test: venv ## Run the tests (ARGS="-k lint" picks some)
	@$(PYTHON_VENV) -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

soak: venv ## Run the endless tests for TIME=300 seconds
	@OMNIGRAPH_SOAK_SECONDS="$(TIME)" OMNIGRAPH_SEEDS="$(SEEDS)" $(PYTHON_VENV) -m pytest -m soak --timeout 0 $(ARGS)

bench: ## Run the benchmarks; one JSON record per measurement (ARGS=--large loads much more)
	@scripts/venv bench
	@scripts/bench $(ARGS)

lint: venv ## Check style, types and the layering
	@$(PYTHON_VENV) -m ruff check
	@$(PYTHON_VENV) -m ruff format --check
	@$(PYTHON_VENV) -m mypy
	@PYTHONPATH=src $(PYTHON_VENV) -c 'from importlinter.cli import lint_imports_command as c; c()' --no-logo

fmt: venv ## Format the code
	@$(PYTHON_VENV) -m ruff check --fix --quiet
	@$(PYTHON_VENV) -m ruff format

docs: venv ## Write the generated parts of docs/ again
	@$(PYTHON_VENV) docs/generate.py

clean: ## Remove .venv and everything else that can be made again
	@rm -rf .venv build dist .coverage .hypothesis .import_linter_cache
	@rm -rf .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/venv
