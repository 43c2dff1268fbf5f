# Works on ssa-operator from a clone: GNU make 3.81 or later, Python 3.11 or later.
PYTHON ?= python3
VENV ?= .venv
# More words for the command of a target: make test ARGS="-k echo -x"
ARGS ?=
# Test files that run at once, each with a control plane of its own; JOBS=0 for one after the other
JOBS ?= 2

BIN := $(VENV)/bin
PYTEST = $(BIN)/pytest --numprocesses=$(JOBS) --dist=loadfile
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
COMPILE = PATH="$(abspath $(BIN)):$$PATH" uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make constraints" $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help install run test test-slow test-all smoke-neon tilt-check bench bench-growth bench-peers lint format check constraints clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## Make the environment in .venv, or bring it up to date

run: $(INSTALLED) ## Start a local control plane, the examples and the operator, and show them live
	$(BIN)/ssa-operator dev $(ARGS)

test: $(INSTALLED) ## Run the tests, those on the local control plane included, but the slow ones
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(INSTALLED) ## Run the slow tests alone
	$(PYTEST) -m slow $(ARGS)

test-all: $(INSTALLED) ## Run every test, the slow ones too
	$(PYTEST) $(ARGS)

smoke-neon: ## Run Neon's smoke test where kubectl points: real nodes, a running operator; ARGS="16 17" for these versions
	tests/neon/smoke $(ARGS)

tilt-check: $(INSTALLED) ## Show that tilt builds, pushes and deploys, without a Docker engine (needs tilt, podman, docker-registry)
	VENV=$(VENV) deploy/dev/tilt-check

bench: $(INSTALLED) ## Measure: objects a second beside the raw limit, CPU per rendered object
	$(BIN)/python -m benchmarks $(ARGS)

bench-growth: $(INSTALLED) ## Measure cold starts of 100 to 10000 parents, of 2 to 50 children each; ARGS="100x2 200x10" for others
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-peers: $(INSTALLED) ## Measure beside kube-rs, controller-runtime and kopf (needs cargo and go); ARGS=--small for a try
	$(BIN)/python -m benchmarks.peers $(ARGS)

lint: $(INSTALLED) ## Check format, style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint test ## Run what a change has to pass: lint and test

constraints: ## Pin what pyproject.toml asks for; ARGS=--upgrade takes newer versions (needs uv)
	$(COMPILE) pyproject.toml --output-file constraints/runtime.txt
	$(COMPILE) constraints/build.in --constraints constraints/runtime.txt --output-file constraints/build.txt
	$(COMPILE) pyproject.toml --extra dev --extra test constraints/build.in --output-file constraints/dev.txt \
		$(addprefix --constraints constraints/,runtime.txt build.txt platforms.in)

clean: ## Remove the environment and everything that tools left behind
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Nothing is fetched where everything pinned is installed already: the environment is as good offline.
# Bytecode is left to the first import of a module: most of the official client is never imported, and half a minute to compile.
$(INSTALLED): pyproject.toml constraints/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is not Python 3.11 or later; name one that is: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --require-hashes --requirement constraints/dev.txt
	$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@
