# Needs Python >= 3.11, git and make; no root. Everything is installed into .venv, once until pyproject.toml changes.

SHELL := /bin/sh
PYTHONS ?= python3.13 python3.12 python3.11 python3
# Each worker has its half and takes of the other's when it is done: a file's server is seldom started twice.
PYTEST_ARGS ?= -n auto --dist worksteal

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip --quiet --disable-pip-version-check
# Two makes at once wait for each other; without flock (macOS) only the jobs of one make are safe.
LOCK := $(shell command -v flock >/dev/null 2>&1 && echo flock pyproject.toml)

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs pictures attack soak api-server-test image-test bench demo-recording requirements clean

help:  ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/installed  ## Plan and propose for a sample repository, on this machine alone
	@$(PYTHON) -m reconciler demo

test: $(VENV)/installed-dev  ## Run all tests; those that need an absent server or tool are skipped by name
	$(PYTHON) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/installed-dev  ## Check style, types, imports, dead code, workflows and Dockerfile
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/vulture
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/zizmor --offline --strict-collection --quiet .github action.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(VENV)/bin/hadolint Dockerfile

docs: $(VENV)/installed-dev  ## Build the site of the documentation into build/site, without a network
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet --config-file .github/site/mkdocs.yml

pictures: $(VENV)/installed-dev  ## Draw the pictures of the documentation again, in a real Chromium
	$(PYTHON) -m tests.tools.make_documentation_pictures

attack: $(VENV)/installed-dev  ## Try the optimizer on 5,000 random problems, 500 fleets, 3,000 under rules; every fault at every call
	ATTACK_PROBLEMS=5000 ATTACK_FLEETS=500 ATTACK_RULED_FLEETS=3000 ATTACK_FAULTS=all $(PYTHON) -m pytest $(PYTEST_ARGS) tests/attack \
		tests/unit/decision/test_whole_fleets.py tests/unit/decision/test_ruled_fleets.py

soak: $(VENV)/installed-dev  ## A thousand runs over ten days of twenty models, a real git and a real Prometheus
	SOAK_RUNS=1000 $(PYTHON) -m pytest -q tests/integration/test_soak.py

api-server-test: $(VENV)/installed-dev  ## Deliver statuses to a real API server: kube-apiserver, etcd and kubectl on PATH
	@for binary in kube-apiserver etcd kubectl; do \
		command -v $$binary >/dev/null || { echo "error: no $$binary on PATH" >&2; exit 1; }; done
	$(PYTHON) -m pytest tests/api_server

image-test: $(VENV)/installed-dev  ## Run the image's build commands and measure it; as root or with sudo, with a network
	$(PYTHON) -m tests.tools.try_image

bench: $(VENV)/installed-dev  ## Measure speed: PART=plan, ALL=1, BASE=COMMIT, WRITE=1 are options
	$(PYTHON) -m tests.bench $(if $(PART),--part $(PART)) $(if $(ALL),--all) $(if $(BASE),--base $(BASE)) $(if $(WRITE),--write)

demo-recording: $(VENV)/installed-dev  ## Record the demo's metrics again, from a real Prometheus
	$(PYTHON) -m tests.tools.make_demo_recording

# What image, action and release install, each file with the hash of everything in it. Only this needs a network.
LOCKED := $(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

requirements: $(VENV)/installed-dev  ## Lock again what image, action and release install
	$(LOCKED) pyproject.toml --output-file .github/requirements/run.txt
	printf 'build\nhatchling\n' | $(LOCKED) - --output-file .github/requirements/build.txt
	printf 'pypi-attestations\ntwine\n' | $(LOCKED) - --output-file .github/requirements/publish.txt

clean:  ## Remove .venv, caches and builds
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find reconciler tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A name in PYTHONS may be a shim that only complains, so each is run before it is taken.
$(PYTHON):
	@$(LOCK) $(SHELL) -c 'test -x $(PYTHON) && exit; for python in $(PYTHONS); do \
		if $$python -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then \
			$$python -c "import ensurepip" 2>/dev/null || \
				{ echo "error: $$python has no venv module: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }; \
			exec $$python -m venv --clear $(VENV); \
		fi; \
	done; \
	echo "error: no Python 3.11 or newer among: $(PYTHONS). Install one, or name it: make PYTHONS=/path/to/python" >&2; \
	exit 1'

# $(1) is what pip installs. Whoever waited for the lock finds the work done; a .venv made by uv has no pip.
define install
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "error: $(VENV) has a Python older than 3.11: remove it with make clean" >&2; exit 1; }
	@$(LOCK) $(SHELL) -c 'test $@ -nt pyproject.toml && exit; echo "Installing $(1) into $(VENV)" >&2; \
		{ $(PYTHON) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m ensurepip >/dev/null; } && \
		$(PIP) install --editable "$(1)" && touch $@'
endef

$(VENV)/installed: pyproject.toml | $(PYTHON)
	$(call install,.)

$(VENV)/installed-dev: pyproject.toml | $(VENV)/installed
	$(call install,.[dev])
