# make demo   sets up .venv, without development tools, and runs the main job
# make test   adds the development tools to .venv and runs the tests that need nothing but Python
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.tools-installed
PIP := PIP_USER=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt
# Packages that the product hardly ever imports. Their bytecode is 50 MB, and a third of the time of the installation.
NOT_IMPORTED := /(kubernetes|pip|setuptools|pkg_resources)/
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
# What was set up for a Python that has been replaced since, or before the checkout was moved, is set up anew.
BROKEN := $(if $(wildcard $(STAMP)),$(shell $(BIN)/sluice --help >/dev/null 2>&1 || echo broken))

.PHONY: broken help setup demo test test-long test-cluster test-real-server test-real-time test-image quick lint types manifests crds control-plane bench compare-jobs compare-scenarios compare-scheduling fuzz bench-jobs bench-queue image image-tools test-tools wheel lock clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1  /p' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml deploy/constraints.txt $(BROKEN)
	@$(PYTHON) -c '$(RECENT)' || { echo "sluice needs Python >= 3.11; set PYTHON=..."; exit 1; }
	@test -n "$(BROKEN)" -o ! -e $(VENV) || $(BIN)/python -c '$(RECENT)' 2>/dev/null || \
		{ echo "$(VENV) is of a Python that is too old, or gone; make clean removes it"; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(if $(BROKEN),--clear) $(VENV)
	@$(PIP) --no-compile --editable .
	@$(BIN)/python -W ignore -m compileall -q -x '$(NOT_IMPORTED)' $(VENV)/lib
	@touch $(STAMP)

$(TOOLS): $(STAMP)
	@echo "Adding the development tools to $(VENV) (once) ..."
	@$(PIP) --editable '.[dev]'
	@touch $(TOOLS)

setup: $(TOOLS) ## install sluice and its development tools into .venv

demo: $(STAMP) ## start a temporary cluster, run a dozen Jobs through the queue, print the results
	@$(BIN)/sluice demo

# Tests wait more than they compute, so more of them run at once than there are processors (`-n auto`); unit tests compute
# (`-n logical`). The tests of a file run in one worker, since they share clusters, and workers take files in the order of
# tests/conftest.py, the longest first; tests in real time are of one file, and two at a time leave a processor idle.
# Bytecode is cached, because the tests start hundreds of processes.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
# Where tests of the real API server are: each worker collects all that it is given, which takes 9 s for the whole tree.
REAL := tests/contract tests/control_plane tests/local

test: $(TOOLS) ## run the tests, except those of test-long and test-cluster
	@$(PYTEST) -n auto -m "not end_to_end and not exhaustive and not control_plane and not wheel" $(PYTEST_ARGS)

test-long: $(TOOLS) ## run the end-to-end tests (commands and clusters as processes) and the exhaustive ones
	@$(PYTEST) -n auto -m "(end_to_end or exhaustive) and not control_plane and not wheel" $(PYTEST_ARGS)

test-cluster: test-real-server test-real-time ## run the tests against a real API server (built once)

test-real-server: $(TOOLS) control-plane
	@$(PYTEST) -n auto $(REAL) -m "control_plane and not real_time and not image" $(PYTEST_ARGS)

test-real-time: $(TOOLS) control-plane
	@$(PYTEST) -n 2 --dist load $(REAL) -m "control_plane and real_time" $(PYTEST_ARGS)

test-image: $(TOOLS) control-plane ## run the image of `make image` against a real API server (as root), and the wheel in an empty environment
	@$(PYTEST) -n 2 -m "image or wheel" $(PYTEST_ARGS)

quick: $(TOOLS) ## run the unit tests in seconds: without the thorough ones, a tenth of the generated examples
	@$(PYTEST) -n logical tests/unit -m "not exhaustive and not thorough" --hypothesis-profile quick $(PYTEST_ARGS)

lint: $(TOOLS) ## check format, lint (ruff), import contracts, and declared against used dependencies
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/deptry .
	@$(BIN)/deptry . --exclude '(\.venv|tests|deploy/image)/' --optional-dependencies-dev-groups dev

types: $(TOOLS) ## check types (mypy, strict)
	@$(BIN)/mypy

manifests: $(STAMP) ## generate deploy/chart, deploy/manifests, deploy/monitoring and deploy/ROLES.md from queue_manager/installation
	@$(BIN)/python -m queue_manager.installation.generated_files deploy

crds: $(STAMP) ## generate from the code: config/crds, config/kueue_config.schema.json, config/*.md and queue_manager/lifecycle/LIFECYCLE.md
	@$(BIN)/python -m queue_manager.api.crd_generation config/crds
	@$(BIN)/python -m queue_manager.configuration.json_schema config/kueue_config.schema.json
	@$(BIN)/python -m queue_manager.configuration.reference_page config/CONFIGURATION.md
	@$(BIN)/python -m queue_manager.api.metric_families config/METRICS.md
	@$(BIN)/python -m queue_manager.cli.output_page config/OUTPUT.md
	@$(BIN)/python -m queue_manager.jobs.lifecycle_page

control-plane: ## build kube-apiserver, etcd, kubectl, helm and promtool, fetch CRDs of operators, and install PostgreSQL, for test-cluster
	@$(PYTHON) tests/control_plane/provide.py
	@$(PYTHON) tests/control_plane/promtool/build.py
	@$(PYTHON) tests/control_plane/operators/crds.py
	@$(PYTHON) tests/control_plane/history/postgresql.py

bench: $(TOOLS) ## print the benchmark tables
	@$(BIN)/python -m tests.benchmarks

compare-jobs: $(TOOLS) ## run N generated histories against kube-controller-manager and Sluice and compare (N=300, SEED=1)
	@$(BIN)/python -m tests.control_plane.jobs $(or $(N),300) $(or $(SEED),1)

compare-scenarios: $(TOOLS) ## run only the scenarios of the comparison (part of test-cluster)
	@$(BIN)/python -m pytest tests/control_plane/jobs/test_scenarios.py

compare-scheduling: $(TOOLS) ## compare N generated small clusters with a naive reference of the scheduler (N=10000, SEED=1)
	@$(BIN)/python -m tests.unit.scheduling.reference_comparison $(or $(N),10000) $(or $(SEED),1)

fuzz: $(TOOLS) ## fuzz every decoder for N seconds together (N=120), starting from tests/fuzz/corpus
	@$(BIN)/python -m tests.fuzz $(or $(N),120)

bench-jobs: $(TOOLS) ## benchmark the Job controllers of Kubernetes and Sluice (ARGS="--large 10 100 1000")
	@$(BIN)/python -m tests.benchmarks.bench_jobs $(ARGS)

bench-queue: $(TOOLS) control-plane ## benchmark the queue on a real API server, about ten minutes (ARGS="--scale 0.1")
	@$(BIN)/python -m tests.benchmarks.bench_queue $(ARGS)

wheel: $(STAMP) ## build dist/sluice-VERSION-py3-none-any.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

test-tools: ## install the Debian packages that a few tests need, which are skipped without them (apt-get, as root)
	@apt-get update --quiet
	@apt-get install --yes --quiet --no-install-recommends zsh fish mandoc

image: ## build the OCI image of deploy/Containerfile into build/image, without a container engine (as root)
	@$(PYTHON) deploy/image/build.py

image-tools: ## install the Debian packages that image and test-image need (apt-get, as root)
	@$(PYTHON) deploy/image/build.py tools

# Versions are those of deploy/constraints.txt; the locks add the hashes and leave out what the image does not need.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" --constraint deploy/constraints.txt

lock: $(TOOLS) ## write the image's packages with hashes: deploy/requirements.lock and deploy/image/tools.lock
	@$(LOCK) --extra otel --extra postgresql --output-file deploy/requirements.lock pyproject.toml
	@$(LOCK) --output-file deploy/image/tools.lock deploy/image/tools.in

clean: ## remove .venv and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
