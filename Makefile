# Two commands set everything up on a machine that has only Python >= 3.11 and make:
#   make demo   own environment in .venv, sweep of examples/demo.toml on Spark, report
#   make test   own environment with the developers' tools, the test suite

SHELL := /bin/sh
# set by some images; each of the processes of the tests would compile all that it imports
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
WORKERS ?= 2
# processes of the tests: two more than cores, as some wait for servers, signals and time limits
TESTERS ?= $(shell expr $(WORKERS) + 2)
TESTS ?= not slow or live
# `ci` draws the first seeds of each family and a tenth of the examples of hypothesis, the same each time
PROFILE ?= ci
# of `make fuzz`: another run each night, the same run for the same SEED
SEED ?= $(shell date +%Y%m%d)
SECONDS ?= 3600

# The first interpreter that is new enough; `make PYTHON=/path/to/python demo` overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	echo $$p; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help demo warm test test-all lint types layers doctests docs docs-serve docs-publish docs-check fuzz torture papers bench lab lab-bench lab-loop lab-plans lab-scale lab-storm lab-kafka lab-storm-bench lab-storm-claims lab-storm-plans constraints clean distclean

help:
	@echo 'make demo         run the demo sweep on Spark and write $(DEMO)/report.html'
	@echo 'make test         style, types, layers, documentation, and all tests but the slow ones'
	@echo 'make test-all     the same with the tests that are marked slow'
	@echo 'make warm         compile the kernels of all methods, once, on all cores'
	@echo 'make docs         the documentation site, in build/site'
	@echo 'make docs-serve   the same on http://127.0.0.1:8000'
	@echo 'make docs-publish VERSION=0.3  adds a version of the site to the branch gh-pages'
	@echo 'make docs-check   the examples and links of README.md, docs/ and docstrings'
	@echo 'make fuzz         random instances against a brute force of its own: SEED=, SECONDS='
	@echo 'make torture      signals, odd paths, damaged files, full disks, hostile servers (20 minutes)'
	@echo 'make papers       the claims of the papers, from smaller runs in build/papers-reduced'
	@echo 'make bench        the timings; tables in build/bench/timings.json as well (BENCH_ARGS=)'
	@echo 'make lab          a Flink cluster on this machine: imported, planned, submitted, verified'
	@echo 'make lab-bench    orders a second of ways to place, on emulated machines (root; an hour)'
	@echo 'make lab-plans    50 random plans on a cluster of its own, each counted'
	@echo 'make lab-scale    a running Flink job scaled to twice its rate (root)'
	@echo 'make lab-storm    a Storm on this machine: planned, a supervisor lost, planned again (JDK, Maven)'
	@echo 'make lab-storm-bench  ways to place Storm topologies, on emulated machines (root; an hour)'
	@echo 'make lab-storm-claims tuples lost by a rescheduling, the cost of monitoring'
	@echo 'make lab-storm-plans  50 random plans on it, each executor counted'
	@echo 'make lab-kafka    20 random plans on a Kafka of its own, with brokers killed, each replica counted'
	@echo 'make constraints  rewrite constraints.txt from this environment'
	@echo 'make clean        remove build/ and caches; make distclean removes .venv too'

# ---- environments -------------------------------------------------------------------------
# Stamps: a second run starts at once; a change of pyproject.toml or constraints.txt reinstalls.

$(BIN)/python:
	@if [ -z '$(PYTHON)' ] || ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	echo 'streamplace needs Python 3.11 or newer; none was found. Install one, or say' >&2; \
	echo 'which: make PYTHON=/path/to/python3.11 $(or $(MAKECMDGOALS),demo)' >&2; exit 2; fi
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	echo 'Python has no working venv module; on Debian and Ubuntu: apt-get install python3-venv' >&2; \
	exit 2; }

$(VENV)/.installed: pyproject.toml experiments/studies/pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing streamplace and its solvers into $(VENV) (once; a few minutes, about 1.5 GB)'
	@$(BIN)/python .ci/install.py -e '.[spark]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml experiments/studies/pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing streamplace and the tools of its tests into $(VENV) (once; a few minutes)'
	@$(BIN)/python .ci/install.py -e '.[dev]' -e experiments/studies
	@touch $(VENV)/.installed $@

$(VENV)/.installed-flights: pyproject.toml experiments/studies/pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing streamplace and the flights of 2013 into $(VENV)'
	@$(BIN)/python .ci/install.py -e '.[spark,flights]' -e experiments/studies
	@touch $(VENV)/.installed $@

# ---- the main job ------------------------------------------------------------------------

# Kernels first: where none are compiled yet, proofs would run out of their time
demo: $(VENV)/.installed
	@mkdir -p build
	$(BIN)/streamplace warm imc-exact imc-milp imc-brute partition balance-milp
	$(BIN)/streamplace sweep examples/demo.toml -o $(DEMO)
	$(BIN)/streamplace report $(DEMO) -o $(DEMO)/report.html

# ---- tests -------------------------------------------------------------------------------

# Kernels, each compiled once, and what needs one core each go side by side before the tests, which
# use all cores and take neighbours in one go, since these share what they begin with.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory --output-sync=target -j $(WORKERS) warm types docs doctests layers lint
	HYPOTHESIS_PROFILE=$(PROFILE) $(BIN)/python -m pytest -n $(TESTERS) --dist worksteal -m '$(TESTS)' tests $(PYTEST_ARGS)

warm: $(VENV)/.installed
	$(BIN)/streamplace warm

test-all:
	@$(MAKE) --no-print-directory test TESTS= PROFILE=default

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

layers: $(VENV)/.installed-dev
	$(BIN)/lint-imports

doctests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q --doctest-modules --doctest-glob='*.md' \
		--ignore=docs/tutorials --ignore=docs/site --ignore=docs/img --ignore=experiments/studies/bench/timefold_process.py \
		streamplace optim formulations heuristics experiments README.md docs

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@for name in $$(sed -n 's/.* as //p' streamplace/__init__.pyi); do \
	grep -q "id=\"streamplace.$$name\"" build/site/api.html || { echo "no $$name in the reference"; exit 1; }; done

docs-serve: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --dev-addr 127.0.0.1:8000

# JSON Schemas of formats and answers, as committed
schemas: $(VENV)/.installed-dev
	@for name in $$($(BIN)/python -c 'from streamplace.cli.schema import ADAPTERS; print(*ADAPTERS)'); do \
	$(BIN)/streamplace schema $$name >docs/schema/streamplace.$$name-1.json; done

# The site of VERSION in its folder of the branch gh-pages, which the first page of the site lists;
# ALIAS moves to it. Nothing is pushed: `make docs-publish PUSH=--push` does.
VERSION ?= latest
docs-publish: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mike deploy $(PUSH) --update-aliases $(VERSION) $(ALIAS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mike set-default $(PUSH) --allow-undefined latest

docs-check: doctests
	$(BIN)/python -m pytest -q tests/examples/test_documentation.py

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz --seed $(SEED) --seconds $(SECONDS) --out build/fuzz $(FUZZ_ARGS)

torture: $(VENV)/.installed-dev
	$(BIN)/python -m tests.torture --write $(TORTURE_ARGS)

# Interrupted, the same command goes on with the tables that are not there yet. At full size, into the
# papers' own folders: streamplace paper --tables all
papers: $(VENV)/.installed-flights
	$(BIN)/streamplace paper --tables all --reduced -o build/papers-reduced
	$(BIN)/streamplace paper --claims --from build/papers-reduced

bench: $(VENV)/.installed-dev
	@mkdir -p build/bench
	$(BIN)/python -m experiments.studies.timings --json build/bench/timings.json $(BENCH_ARGS)

lab: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.flink $(LAB_ARGS)

lab-bench: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.flink_bench $(LAB_ARGS)

lab-plans: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.plans flink $(LAB_ARGS)

lab-loop: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.loop storm $(LAB_ARGS)
	$(BIN)/python -m experiments.studies.lab.loop flink $(LAB_ARGS)

lab-scale: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.scale $(LAB_ARGS)

lab-kafka: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.kafka $(LAB_ARGS)

lab-storm: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.storm $(LAB_ARGS)

lab-storm-bench: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.storm_bench $(LAB_ARGS)

lab-storm-claims: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.papers.storm.live $(LAB_ARGS)

lab-storm-plans: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.studies.lab.plans storm $(LAB_ARGS)

constraints: $(VENV)/.installed-dev
	$(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check > constraints.txt

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
