# The tasks for working on ssa-operator in a clone; they need GNU make 3.81 or later and Python 3.11 or later.
PYTHON ?= python3
VENV ?= .venv
# More arguments for the command of a target: make test ARGS="-k echo -x"
ARGS ?=
# Test files that run in parallel, each with its own control plane: 3, or 4 of the slow ones, because 3 of them leave two
# cores idle for a quarter of the time. JOBS=0 runs one after the other.
JOBS ?=
# A folder for reports: the failed tests run a second time, alone, and those that pass are listed as flaky (tests/rerun.py)
RERUN ?=

BIN := $(VENV)/bin
PYTEST = $(BIN)/$(if $(RERUN),python -m tests.rerun $(RERUN),pytest) --numprocesses=$(or $(JOBS),$(USUAL_JOBS)) --dist=loadfile
USUAL_JOBS = 3
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINS := deploy/constraints

# Without compiled modules, each of the many processes that the tests start would take seconds more.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run test test-slow test-exhaustive test-all lint format bench site web rbac transcripts manifests constraints clean

help: ## List all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## Create or update the environment in .venv

run: $(INSTALLED) ## Run a local control plane, the examples and the operator, and show the objects live
	$(BIN)/ssa-operator dev $(ARGS)

test: $(INSTALLED) ## Run the tests of every change, including those on the local control plane
	$(PYTEST) -m "not slow and not exhaustive" $(ARGS)

test-slow: USUAL_JOBS = 4
test-slow: $(INSTALLED) ## Run only the slow tests
	$(PYTEST) -m "slow and not exhaustive" $(ARGS)

test-exhaustive: $(INSTALLED) ## Run only the tests that show a promise in more cases than `make test` does
	$(PYTEST) -m exhaustive $(ARGS)

test-all: $(INSTALLED) ## Run all tests, including the slow and the exhaustive ones
	$(PYTEST) $(ARGS)

lint: $(INSTALLED) ## Check format, style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED) ## Run the benchmark of a name: ARGS="peers --small"; without one, list them
	$(BIN)/python -m tests.benchmarks $(ARGS)

# Where the site links to sources: the address of the clone's origin, as browsers open it
site: export REPOSITORY_URL := $(or $(REPOSITORY_URL),$(shell git config remote.origin.url | sed -n 's|^git@\([^:]*\):|https://\1/|; s|\.git$$||; /^https*:/p'),https://github.com/OWNER/NAME)
site: $(INSTALLED) ## Build the documentation site in build/html; REPOSITORY_URL=ADDRESS for links to sources
	$(BIN)/python -m docs.generate.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file docs/mkdocs.yml

web: $(INSTALLED) ## Build the web view (ssa_operator/web/static) from ssa_operator/web/page (needs npm)
	$(BIN)/python -m docs.generate.openapi > ssa_operator/web/page/openapi.json
	cd ssa_operator/web/page && npm ci --no-audit --no-fund && npm run check && npm run build

rbac: $(INSTALLED) ## Generate deploy/base/rbac.yaml from templates/ and crds/, and the chart's permissions without them
	$(BIN)/ssa-operator rbac $(ARGS) > deploy/base/rbac.yaml.new
	mv deploy/base/rbac.yaml.new deploy/base/rbac.yaml
	mkdir -p build/no-templates
	$(BIN)/ssa-operator rbac --templates build/no-templates > deploy/chart/files/rbac-alone.yaml.new
	mv deploy/chart/files/rbac-alone.yaml.new deploy/chart/files/rbac-alone.yaml
	$(BIN)/ssa-operator rbac --namespace watched > deploy/chart/files/rbac-examples-namespace.yaml.new
	mv deploy/chart/files/rbac-examples-namespace.yaml.new deploy/chart/files/rbac-examples-namespace.yaml

transcripts: $(INSTALLED) ## Run the commands of README.md, docs and examples, and write what they print; ARGS=README.md for one page
	$(BIN)/python -m docs.generate transcripts $(ARGS)

# The image that the manifests name
IMAGE ?= ssa-operator:$(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' ssa_operator/__init__.py)-examples

manifests: $(INSTALLED) ## Write dist/install.yaml: the CRDs and deploy/base in one file; IMAGE=registry.example/ssa-operator:0.1.0-examples for yours
	mkdir -p dist
	for crd in crds/*.yaml; do cat "$$crd" && echo ---; done > dist/install.yaml.new
	$(BIN)/kubectl kustomize deploy/base | sed 's|image: ssa-operator$$|image: $(IMAGE)|' >> dist/install.yaml.new
	mv dist/install.yaml.new dist/install.yaml

COMPILE = PATH="$(abspath $(BIN)):$$PATH" uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-strip-extras \
	--no-emit-index-url --no-emit-find-links $(ARGS)
# The parts of dev.txt. Building takes the first one alone, a release the first two and runtime.txt; all have each pin once.
PARTS = 'BEGIN { split("run|Building|A release|The rest", title, "|") } FNR == 1 && ++part > 1 { print "\# " title[part] ":" } \
	/^[a-z]/ { shown = !seen[$$0]++ || part == 2 } part > 1 && shown && !/-c build/'
NEW := build/constraints

constraints: ## Pin the dependencies of pyproject.toml in deploy/constraints; ARGS=--upgrade for newer versions (needs uv)
	mkdir -p $(NEW)
	cp $(PINS)/runtime.txt $(NEW)/runtime.txt
	for part in build release rest; do cp $(PINS)/dev.txt $(NEW)/$$part.txt; done
	$(COMPILE) pyproject.toml --extra admission --output-file $(NEW)/runtime.txt
	$(COMPILE) --group build --constraints $(NEW)/runtime.txt --output-file $(NEW)/build.txt
	$(COMPILE) --group release $(addprefix --constraints $(NEW)/,runtime.txt build.txt) --output-file $(NEW)/release.txt
	$(COMPILE) pyproject.toml --all-extras --group build --group site --output-file $(NEW)/rest.txt \
		$(addprefix --constraints $(NEW)/,runtime.txt build.txt release.txt)
	echo '# `make constraints` writes this file from pyproject.toml.' | tee $(PINS)/runtime.txt > $(PINS)/dev.txt
	cat $(NEW)/runtime.txt >> $(PINS)/runtime.txt
	awk $(PARTS) $(addprefix $(NEW)/,runtime.txt build.txt release.txt rest.txt) >> $(PINS)/dev.txt

clean: ## Remove the environment and all files that tools created
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip fetches nothing if all pinned packages are installed, so this works offline, too.
# Modules are compiled at their first import: most of the official client is never imported, and takes half a minute to compile.
$(INSTALLED): pyproject.toml $(PINS)/runtime.txt $(PINS)/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is not Python 3.11 or later; name one that is: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --only-binary :all: --require-hashes --requirement $(PINS)/runtime.txt --requirement $(PINS)/dev.txt
	$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@
