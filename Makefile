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
COMPILE = PATH="$(abspath $(BIN)):$$PATH" uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make constraints" $(ARGS)

# Without compiled modules, each of the many processes that the tests start would take seconds more.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run rbac sbom test test-slow test-exhaustive test-all test-alerts test-faults test-perturbations test-image test-skew test-stable compare-crds compare-manifests explore smoke-neon soak tilt-check web bench bench-check bench-growth bench-load bench-memory bench-peers bench-plan bench-reads bench-renames bench-shards bench-stall bench-start bench-status bench-takeover bench-web diagrams picture recording site schemas transcripts lint format check constraints manifests clean

help: ## List all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED) ## Create or update the environment in .venv

run: $(INSTALLED) ## Run a local control plane, the examples and the operator, and show the objects live
	$(BIN)/ssa-operator dev $(ARGS)

rbac: $(INSTALLED) ## Generate deploy/base/rbac.yaml from templates/ and crds/, and the chart's permissions without them
	$(BIN)/ssa-operator rbac $(ARGS) > deploy/base/rbac.yaml.new
	mv deploy/base/rbac.yaml.new deploy/base/rbac.yaml
	mkdir -p build/no-templates
	$(BIN)/ssa-operator rbac --templates build/no-templates > deploy/chart/files/rbac-alone.yaml.new
	mv deploy/chart/files/rbac-alone.yaml.new deploy/chart/files/rbac-alone.yaml
	$(BIN)/ssa-operator rbac --namespace watched > deploy/chart/files/rbac-examples-namespace.yaml.new
	mv deploy/chart/files/rbac-examples-namespace.yaml.new deploy/chart/files/rbac-examples-namespace.yaml

test: $(INSTALLED) ## Run the tests of every change, including those on the local control plane
	$(PYTEST) -m "not slow and not exhaustive" $(ARGS)

test-slow: USUAL_JOBS = 4
test-slow: $(INSTALLED) ## Run only the slow tests
	$(PYTEST) -m "slow and not exhaustive" $(ARGS)

test-exhaustive: $(INSTALLED) ## Run only the tests that show a promise in more cases than `make test` does
	$(PYTEST) -m exhaustive $(ARGS)

test-all: $(INSTALLED) ## Run all tests, including the slow and the exhaustive ones
	$(PYTEST) $(ARGS)

test-faults: $(INSTALLED) ## Play the whole fault matrix (10 minutes) and write its table into docs/reliability.md
	$(BIN)/python -m tests.faults $(ARGS)

test-perturbations: $(INSTALLED) ## Crash, delay and blind the operator at each point of each story, and write the table into docs/reliability.md
	$(BIN)/python -m tests.perturbations $(ARGS)

test-image: $(INSTALLED) ## Build the image with podman, measure it, and run it with templates from each source (docs/install.md)
	$(BIN)/python -m tests.image $(ARGS)

# The older API servers that are supported, built from Go modules beside those of `ssa-operator cluster`. kwok is the same.
SKEW ?= 1.34
SKEW_VERSION = $(shell sed -n 's|^.*k8s.io/kubernetes v||p' tests/skew/$(SKEW)/go.mod | cut -d ' ' -f 1)
SKEW_BIN = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ssa-operator/skew/kubernetes-$(SKEW_VERSION)/bin
VERSION = k8s.io/component-base/version

$(SKEW_BIN):
	rm -rf $@.new && mkdir -p $@.new
	cd tests/skew/$(SKEW) && CGO_ENABLED=0 GOWORK=off GOFLAGS= go build -trimpath -buildvcs=false -o $@.new/ \
		-ldflags "-s -w -X $(VERSION).gitVersion=v$(SKEW_VERSION) -X $(VERSION).gitMajor=1 -X $(VERSION).gitMinor=$(subst 1.,,$(SKEW))" \
		go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
		k8s.io/kubernetes/cmd/kube-scheduler
	mv $@.new/server $@.new/etcd
	cd tests/skew/$(SKEW) && CGO_ENABLED=0 GOWORK=off GOFLAGS= GOBIN=$@.new go install -trimpath sigs.k8s.io/kwok/cmd/kwok@v0.8.0
	mv $@.new $@

test-skew: $(INSTALLED) $(SKEW_BIN) ## Run the tests of the operator against the oldest supported API server, or SKEW=1.35 (needs go; builds it once, 11 minutes)
	KUBEBUILDER_ASSETS=$(SKEW_BIN) $(PYTEST) -m "cluster and not slow" tests/informers tests/operator tests/reconcile tests/kube $(ARGS)

test-stable: $(INSTALLED) ## Run the tests of the operator against an API server without alpha and beta features
	STABLE_FEATURES_ONLY=1 $(PYTEST) -m "cluster and not slow" tests/informers tests/operator tests/reconcile tests/kube $(ARGS)

# Prometheus' promtool, built from Go modules. The tag leaves out the discovery of targets, which rule tests do not need.
PROMTOOL_VERSION = $(shell sed -n 's|.*github.com/prometheus/prometheus v||p' tests/monitoring/promtool/go.mod)
PROMTOOL_BIN = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ssa-operator/promtool/$(PROMTOOL_VERSION)/promtool

$(PROMTOOL_BIN):
	mkdir -p $(@D)
	cd tests/monitoring/promtool && CGO_ENABLED=0 GOWORK=off GOFLAGS= go build -trimpath -buildvcs=false -tags remove_all_sd \
		-ldflags "-s -w" -o $@.new github.com/prometheus/prometheus/cmd/promtool
	mv $@.new $@

test-alerts: $(PROMTOOL_BIN) ## Test when each alert of deploy/monitoring fires (needs go; builds promtool once)
	$(PROMTOOL_BIN) check rules deploy/monitoring/alerts.yaml
	$(PROMTOOL_BIN) test rules $(ARGS) tests/monitoring/alerts/*.yaml

compare-crds: $(INSTALLED) ## Compare new objects offline with the API server's, for the CRDs in folders; ARGS="FOLDER --objects 200"
	$(BIN)/python -m tests.object_comparison $(ARGS)

compare-manifests: $(INSTALLED) ## Compare what `check` says with the API server's verdicts, for the objects in folders; ARGS="FOLDER --mutate"
	$(BIN)/python -m tests.manifest_comparison $(ARGS)

GALLERY = $(sort $(dir $(wildcard examples/*/templates)))

explore: $(INSTALLED) ## Play sequences of spec changes over all templates and examples; ARGS="--seed 2 --sequences 10" for others
	$(BIN)/python -m tests.exploration . $(GALLERY) --examples examples $(addprefix --examples ,$(GALLERY)) $(ARGS)

smoke-neon: ## Run Neon's smoke test in kubectl's current cluster (needs real nodes and a running operator); ARGS="16 17" for these versions
	tests/neon/smoke $(ARGS)

tilt-check: $(INSTALLED) ## Test that tilt builds, pushes and deploys, without a Docker engine (needs tilt, podman, docker-registry)
	VENV=$(VENV) deploy/dev/tilt-check

bench: $(INSTALLED) ## Measure objects a second beside the raw limit, and CPU per rendered object
	$(BIN)/python -m benchmarks $(ARGS)

bench-check: $(INSTALLED) ## Measure `ssa-operator check` over 100 templates beside plain Jinja and libyaml; ARGS=--templates=300 for more
	$(BIN)/python -m benchmarks.check $(ARGS)

bench-growth: $(INSTALLED) ## Measure cold starts of 100 to 10000 parents, of 2 to 50 children each; ARGS="100x2 200x10" for others
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-load: $(INSTALLED) ## Measure a user's change beside a resync of 10000 parents and beside 1000 changes; ARGS=--parents=1000 for fewer
	$(BIN)/python -m benchmarks.load $(ARGS)

bench-memory: $(INSTALLED) ## Measure the memory of a parent, and which objects it consists of; ARGS="100 1000 --apply=changed" for others
	$(BIN)/python -m benchmarks.memory $(ARGS)

bench-plan: $(INSTALLED) ## Measure `ssa-operator plan` over 1000 parents beside as many dry-run applies; ARGS=--parents=200 for fewer
	$(BIN)/python -m benchmarks.plan $(ARGS)

bench-peers: $(INSTALLED) ## Compare with kube-rs, controller-runtime and kopf (needs cargo and go); ARGS=--small for a short run
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-renames: $(INSTALLED) ## Measure /healthz while 500 to 2000 children of one parent get another name; ARGS="500" for fewer
	$(BIN)/python -m benchmarks.renames $(ARGS)

bench-shards: $(INSTALLED) ## Measure four shards of 5000 parents beside one process; ARGS="--parents=1000 --shards=2" for fewer
	$(BIN)/python -m benchmarks.shards $(ARGS)

bench-takeover: $(INSTALLED) ## Measure the time from a standby's Lease to its first write with 1000 parents; ARGS=--stop after a clean stop
	$(BIN)/python -m benchmarks.takeover $(ARGS)

bench-reads: $(INSTALLED) ## Measure many parents that read one Secret and the same objects beside one parent, without a cluster; ARGS=--parents=1000 for more
	$(BIN)/python -m benchmarks.shared_reads $(ARGS)

bench-stall: $(INSTALLED) ## Measure how long one text or template holds up the event loop; ARGS="WORD" for the cases that contain it
	$(BIN)/python -m benchmarks.stall $(ARGS)

bench-start: $(INSTALLED) ## Measure the start of `ssa-operator run` to its first reaction, with 1000 parents; ARGS="--beside PROGRAM" for another one
	$(BIN)/python -m benchmarks.start $(ARGS)

bench-status: $(INSTALLED) ## Measure the time of `ssa-operator status` over 1000 parents, beside one list of them
	$(BIN)/python -m benchmarks.status $(ARGS)

bench-web: $(INSTALLED) ## Measure the web view: 10000 children of a parent, a search over 10000 parents, 20 open pages; ARGS=--children=1000 for fewer
	$(BIN)/python -m benchmarks.web $(ARGS)

# Minutes for which `make soak` changes objects
MINUTES ?= 60

soak: $(INSTALLED) ## Change objects for MINUTES=60, and fail if memory, file descriptors, threads or tasks grow
	$(BIN)/python -m benchmarks.soak --minutes=$(MINUTES) $(ARGS)

diagrams: $(INSTALLED) ## Draw docs/diagrams/*.svg from the .dot files beside them
	$(BIN)/python -m docs.generate diagrams

# Where the site links to sources: the address of the clone's origin, as browsers open it
site: export REPOSITORY_URL := $(or $(REPOSITORY_URL),$(shell git config remote.origin.url | sed -n 's|^git@\([^:]*\):|https://\1/|; s|\.git$$||; /^https*:/p'),https://github.com/OWNER/NAME)
site: $(INSTALLED) ## Build the documentation site in build/html; REPOSITORY_URL=ADDRESS for links to sources
	$(BIN)/python -m docs.generate.site
	$(PYTHON) -m venv build/site
	build/site/bin/python -m pip --disable-pip-version-check install --quiet --only-binary :all: --require-hashes --requirement constraints/site.txt
	NO_MKDOCS_2_WARNING=1 build/site/bin/python -m mkdocs build --strict --config-file docs/mkdocs.yml

schemas: $(INSTALLED) ## Write the schemas of Kubernetes' kinds for `ssa-operator check`, from the local control plane
	$(BIN)/python -m docs.generate schemas

web: ## Build the web view (ssa_operator/web/static) from web/src (needs npm)
	cd web && npm ci --no-audit --no-fund && npm run check && npm run build

picture: $(INSTALLED) ## Take the pictures of ssa-operator dev (docs/dev.svg) and of the web view (docs/web-*.png, needs Chromium) from sessions on a local control plane
	$(BIN)/python -m docs.generate picture

recording: $(INSTALLED) ## Record how a Helm chart becomes an operator, with an error and its repair (docs/new.svg; needs go)
	$(BIN)/python -m docs.generate recording

transcripts: $(INSTALLED) ## Run the commands of README.md, docs and examples, and write what they print; ARGS=README.md for one page
	$(BIN)/python -m docs.generate transcripts $(ARGS)

lint: $(INSTALLED) ## Check format, style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint test ## Run everything that a change must pass: lint and test

sbom: $(INSTALLED) ## List what the image has, with licences, in dist/sbom.cdx.json (CycloneDX)
	mkdir -p dist
	$(PYTHON) -m venv --clear --without-pip build/runtime
	$(PIP) --python build/runtime install --no-compile --only-binary :all: --require-hashes --requirement constraints/runtime.txt
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/sbom.cdx.json build/runtime/bin/python

# The image that the manifests name
IMAGE ?= ssa-operator:$(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' ssa_operator/__init__.py)-examples

manifests: $(INSTALLED) ## Write dist/install.yaml: the CRDs and deploy/base in one file; IMAGE=registry.example/ssa-operator:0.1.0-examples for yours
	mkdir -p dist
	for crd in crds/*.yaml; do cat "$$crd" && echo ---; done > dist/install.yaml.new
	$(BIN)/kubectl kustomize deploy/base | sed 's|image: ssa-operator$$|image: $(IMAGE)|' >> dist/install.yaml.new
	mv dist/install.yaml.new dist/install.yaml

constraints: ## Pin the dependencies of pyproject.toml; ARGS=--upgrade for newer versions (needs uv)
	$(COMPILE) pyproject.toml --output-file constraints/runtime.txt
	$(COMPILE) pyproject.toml --extra admission --output-file constraints/admission.txt \
		$(addprefix --constraints constraints/,runtime.txt platforms.in)
	$(COMPILE) constraints/build.in --constraints constraints/runtime.txt --output-file constraints/build.txt
	$(COMPILE) constraints/release.in --output-file constraints/release.txt
	$(COMPILE) constraints/site.in --output-file constraints/site.txt
	$(COMPILE) pyproject.toml --extra admission --extra dev --extra graph --extra lsp --extra test constraints/build.in --output-file constraints/dev.txt \
		$(addprefix --constraints constraints/,runtime.txt build.txt platforms.in)

clean: ## Remove the environment and all files that tools created
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip fetches nothing if all pinned packages are installed, so this works offline, too.
# Modules are compiled at their first import: most of the official client is never imported, and takes half a minute to compile.
$(INSTALLED): pyproject.toml constraints/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is not Python 3.11 or later; name one that is: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --only-binary :all: --require-hashes --requirement constraints/dev.txt
	$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@
