# make demo   sets up .venv and runs the main job
# make test   sets up .venv and runs the tests that need nothing but Python
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
# What was set up for a Python that has been replaced since, or before the checkout was moved, is set up anew.
BROKEN := $(if $(wildcard $(STAMP)),$(shell $(BIN)/sluice --help >/dev/null 2>&1 || echo broken))

.PHONY: broken help setup demo test test-cluster test-real-server test-real-time quick lint types crds control-plane bench compare-jobs compare-scenarios compare-scheduling bench-jobs bench-queue clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1  /p' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml deploy/constraints.txt $(BROKEN)
	@$(PYTHON) -c '$(RECENT)' || { echo "sluice needs Python >= 3.11; set PYTHON=..."; exit 1; }
	@test -n "$(BROKEN)" -o ! -e $(VENV) || $(BIN)/python -c '$(RECENT)' 2>/dev/null || \
		{ echo "$(VENV) is of a Python that is too old, or gone; make clean removes it"; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(if $(BROKEN),--clear) $(VENV)
	@PIP_USER=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt --editable '.[dev]'
	@touch $(STAMP)

setup: $(STAMP) ## install sluice and its tools into .venv

demo: $(STAMP) ## start a temporary cluster, run a dozen Jobs through the queue, print the results
	@$(BIN)/sluice demo

# Tests wait more than they compute, so there are more of them at once than processors. The tests of a file stay together:
# they share clusters. Files are handed out in the order of tests/conftest.py, the longest first. Those in real time on
# the real server have the machine to themselves. Bytecode is cached: the tests start hundreds of processes.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(STAMP) ## run the tests, except the exhaustive ones and those against a real API server (test-cluster)
	@$(PYTEST) -m "not control_plane and not exhaustive" $(PYTEST_ARGS)

test-cluster: test-real-server test-real-time ## run the tests against a real API server (built once) and the exhaustive ones

test-real-server: $(STAMP) control-plane
	@$(PYTEST) -m "(control_plane and not real_time) or exhaustive" $(PYTEST_ARGS)

test-real-time: $(STAMP) control-plane
	@$(PYTEST) -m "control_plane and real_time" -n 1 $(PYTEST_ARGS)

quick: $(STAMP) ## run the unit tests, which take seconds
	@$(PYTEST) tests/unit -m "not exhaustive" $(PYTEST_ARGS)

lint: $(STAMP) ## check format, lint (ruff), import contracts, and declared against used dependencies
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/deptry .
	@$(BIN)/deptry . --exclude '(\.venv|tests)/' --optional-dependencies-dev-groups dev

types: $(STAMP) ## check types (mypy, strict)
	@$(BIN)/mypy

crds: $(STAMP) ## generate from the code: config/crds, config/kueue_config.schema.json, config/METRICS.md and queue_manager/lifecycle/LIFECYCLE.md
	@$(BIN)/python -m queue_manager.api.crd_generation config/crds
	@$(BIN)/python -m queue_manager.configuration.json_schema config/kueue_config.schema.json
	@$(BIN)/python -m queue_manager.api.metric_families config/METRICS.md
	@$(BIN)/python -m queue_manager.jobs.lifecycle_page

control-plane: ## build kube-apiserver, etcd and kubectl for test-cluster
	@$(PYTHON) tests/control_plane/provide.py

bench: $(STAMP) ## print the benchmark tables
	@$(BIN)/python -m tests.benchmarks

compare-jobs: $(STAMP) ## run N generated histories against kube-controller-manager and Sluice and compare (N=300, SEED=1)
	@$(BIN)/python -m tests.control_plane.jobs $(or $(N),300) $(or $(SEED),1)

compare-scenarios: $(STAMP) ## run only the scenarios of the comparison (part of test-cluster)
	@$(BIN)/python -m pytest tests/control_plane/jobs/test_scenarios.py

compare-scheduling: $(STAMP) ## compare N generated small clusters with a naive reference of the scheduler (N=10000, SEED=1)
	@$(BIN)/python -m tests.unit.scheduling.reference_comparison $(or $(N),10000) $(or $(SEED),1)

bench-jobs: $(STAMP) ## benchmark the Job controllers of Kubernetes and Sluice (ARGS="--large 10 100 1000")
	@$(BIN)/python -m tests.benchmarks.bench_jobs $(ARGS)

bench-queue: $(STAMP) control-plane ## benchmark the queue on a real API server, about ten minutes (ARGS="--scale 0.1")
	@$(BIN)/python -m tests.benchmarks.bench_queue $(ARGS)

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
