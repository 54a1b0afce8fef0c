# `make help` lists the targets. What they need is set up on first use: a virtual environment, packages, Delta's jars.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
WORK ?= .quickstart
SCALE ?= 1
.DEFAULT_GOAL := help

.PHONY: help setup kafka broker quickstart ask test test-all bench lint docs clean java

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

java:
	@bash tools/check_java.sh

$(VENV)/.installed: pyproject.toml requirements.lock | java
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet -r requirements.lock
	$(PY) -m pip install --quiet --no-deps -e .
	@touch $@

.jars/.fetched: $(VENV)/.installed
	$(PY) -m jobs.fetch_jars .jars
	@touch $@

setup: java $(VENV)/.installed .jars/.fetched ## install packages and jars into the project's folder (others do this as needed)

.jars/.kafka-fetched: .jars/.fetched
	$(PY) -m jobs.fetch_jars .jars kafka
	@touch $@

.jars/.broker-fetched: .jars/.fetched
	$(PY) -m jobs.fetch_jars .jars broker
	@touch $@

broker: setup
	@$(MAKE) --no-print-directory .jars/.kafka-fetched .jars/.broker-fetched || \
		echo "Kafka's jars could not be fetched: the tests that need a broker are skipped."

kafka: setup .jars/.kafka-fetched ## fetch the jars of Spark's Kafka source and sink; sessions load them from then on

quickstart: setup ## process real flights and weather into versioned tables, with one spark-submit job
	$(PY) -m jobs.quickstart --work $(WORK)

ask: setup ## query the quickstart's tables in SQL, at a prompt or from a file (make ask < questions.sql)
	@$(PY) -m jobs.ask --work $(WORK)

test: setup ## run the tests that every change must pass (about 20 minutes on 2 cores)
	@mkdir -p build; $(PY) -m pytest -q -m "not slow and not spark" > build/without-spark.txt 2>&1 & others=$$!; \
	$(PY) -m pytest -q -m "not slow and spark"; spark=$$?; \
	wait $$others; others=$$?; cat build/without-spark.txt; exit $$((spark + others))

test-all: setup broker ## run every test, the slow ones too
	$(PY) -m pytest -q

bench: setup ## compare speed with other tools (half an hour; SCALE=0.05 for a quick try); results in build/benchmarks
	$(PY) -m pip install --quiet -e ".[bench]"
	$(PY) -m benchmarks --scale $(SCALE)

lint: $(VENV)/.installed ## check style, types and layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed ## build the documentation as a site in build/site
	$(PY) -m pip install --quiet -e ".[docs]"
	$(VENV)/bin/mkdocs build --strict

clean: ## remove what the targets made, except the virtual environment and the jars
	rm -rf $(WORK) build dist spark-warehouse metastore_db derby.log
