# Benchrack's front doors, for a machine with Linux, Python 3.11+ and make. `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
BUILT := build/typed

.PHONY: help inference report test lint wheelhouse clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# A report is written of what this run measured, however it ended; a run such as ARGS=--collect-only
# has none, and must not be taken for the run before it.
inference: $(VENV)/.benchrack ## Measure the quick sweep; change it with ARGS='--models=vgg16 --device=cpu'
	@touch $(VENV)/.started
	@$(BIN)/pytest -m inference $(ARGS); status=$$?; \
	if [ -n "$$(find results -newer $(VENV)/.started -name '*.json' 2>/dev/null)" ]; then \
	  $(MAKE) --no-print-directory report || status=$$?; \
	fi; \
	exit $$status

report: $(VENV)/.benchrack ## Write the newest run's report to results/report.md
	@$(BIN)/benchrack report --format markdown -o results/report.md
	@echo "report: results/report.md"

test: $(VENV)/.benchrack-tools ## Run Benchrack's own tests, with warnings as errors
	$(BIN)/pytest -W error tests $(ARGS)

# mypy can't see the folders that pyproject.toml maps into the package: it gets a built copy.
lint: $(VENV)/.benchrack-tools ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf build
	@$(PIP) install --quiet --no-deps --target $(BUILT) .
	MYPYPATH=$(BUILT) $(BIN)/mypy --strict -p benchrack
	MYPYPATH=$(BUILT) $(BIN)/mypy --strict benchmarks

wheelhouse: $(VENV)/.pip ## Collect all that an installation needs, for a machine without a network
	$(PIP) wheel --wheel-dir wheelhouse '.[all]' 'pip>=25.1' 'setuptools>=77' --group test --group lint

clean: ## Remove the environment and what was built; results/ stays
	rm -rf $(VENV) build dist *.egg-info .tox .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: pip works only when pyproject.toml changed -----------------------------------

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Benchrack needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make $(MAKECMDGOALS) PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.benchrack: pyproject.toml | $(BIN)/pip
	@echo "Installing Benchrack and its frameworks into $(VENV): some minutes and 6 GB the first time"
	$(PIP) install -e '.[all]'
	@touch $@

# Dependency groups need a pip that is newer than the one that Python 3.11 and 3.12 bring.
$(VENV)/.pip: | $(BIN)/pip
	$(PIP) install 'pip>=25.1'
	@touch $@

$(VENV)/.benchrack-tools: pyproject.toml $(VENV)/.benchrack | $(VENV)/.pip
	$(PIP) install --group test --group lint
	@touch $@
