# `make help` tells what there is. Everything is set up on first use: a virtual environment, packages, Delta's jars.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
WORK ?= .quickstart
SCALE ?= 1
.DEFAULT_GOAL := help

.PHONY: help setup kafka broker quickstart ask test test-all bench lint docs clean java

help: ## what one can do
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

setup: java $(VENV)/.installed .jars/.fetched ## virtual environment, packages and jars (done by the others as needed)

.jars/.kafka-fetched: .jars/.fetched
	$(PY) -m jobs.fetch_jars .jars kafka
	@touch $@

.jars/.broker-fetched: .jars/.fetched
	$(PY) -m jobs.fetch_jars .jars broker
	@touch $@

broker: setup
	@$(MAKE) --no-print-directory .jars/.kafka-fetched .jars/.broker-fetched || \
		echo "Kafka's jars could not be fetched: the tests that need a broker are skipped."

kafka: setup .jars/.kafka-fetched ## the jars of Spark's Kafka source and sink; sessions load them from then on

quickstart: setup ## real flights and weather through a spark-submit job into versioned tables
	$(PY) -m jobs.quickstart --work $(WORK)

ask: setup ## SQL over the quickstart's tables, statement by statement (or from a file: make ask < questions.sql)
	@$(PY) -m jobs.ask --work $(WORK)

test: setup ## the tests that a change must pass (about 20 minutes on 2 cores)
	@mkdir -p build; $(PY) -m pytest -q -m "not slow and not spark" > build/without-spark.txt 2>&1 & others=$$!; \
	$(PY) -m pytest -q -m "not slow and spark"; spark=$$?; \
	wait $$others; others=$$?; cat build/without-spark.txt; exit $$((spark + others))

test-all: setup broker ## every test
	$(PY) -m pytest -q

bench: setup ## speed against peers, half an hour (SCALE=0.05 to try out); JSON and a chart in build/benchmarks
	$(PY) -m pip install --quiet -e ".[bench]"
	$(PY) -m benchmarks --scale $(SCALE)

lint: $(VENV)/.installed ## style, types and layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed ## the documentation as a site in build/site
	$(PY) -m pip install --quiet -e ".[docs]"
	$(VENV)/bin/mkdocs build --strict

clean: ## remove what the targets made, but for the virtual environment and the jars
	rm -rf $(WORK) build dist spark-warehouse metastore_db derby.log
