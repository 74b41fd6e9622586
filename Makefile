# Verbs of the project; each works on a fresh clone. `make` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODE := clients gateway services tests demo
STATE := .faultline
UNIT_TESTS := $(sort $(shell find tests/unit -name 'test_*.py'))
TENSOR_TESTS := $(filter $(addprefix tests/unit/,clients/% core/editing/% core/test_torchvision% demo/% docs/% gateway/test_report_% miniature/test_training_stage% services/%),$(UNIT_TESTS))
# Some libraries' loggers do not propagate: pytest hangs its handlers on each, three times a test.
UNIT := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations=5 -p no:logging

.DEFAULT_GOAL := help
.PHONY: help install system lock check format test unit unit-plain unit-tensors integration coverage demo demo-interface validate validate-interface bench up down miniature clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(STAMP) ## install Faultline with every extra into .venv

$(STAMP): pyproject.toml requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[cli,gateway,exports,services]' --group dev
	touch $@

system: ## install the Debian packages that the browser and PostgreSQL tests need
	command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@# Only the programs: the tests run servers of their own, so the package shall not make and start one.
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || test "$$(id -u)" != 0 || { mkdir -p /etc/postgresql-common/createcluster.d && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/faultline.conf && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; }

lock: $(STAMP) ## freeze the versions that are installed now
	$(BIN)/python -m pip freeze --exclude-editable | sed -E 's/\+cpu$$//' | LC_ALL=C sort -f > requirements.lock

check: $(STAMP) ## lint, format, types, import contracts
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports
	$(BIN)/mypy $(CODE)

format: $(STAMP) ## mend format and imports
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

test: $(STAMP) system unit integration ## every test

unit: $(STAMP) ## tests without network, Ray or trained weights
	$(MAKE) --no-print-directory --jobs 2 --output-sync unit-plain unit-tensors

# Two processes with files of their own, of equal length: pytest-xdist would import PyTorch in every worker.
unit-plain: $(STAMP)
	@$(UNIT) $(filter-out $(TENSOR_TESTS),$(UNIT_TESTS))

unit-tensors: $(STAMP)
	@$(UNIT) $(TENSOR_TESTS)

integration: $(STAMP) ## tests on real Ray, real weights, killed processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/integration --durations=10

coverage: $(STAMP) ## unit and integration tests under coverage
	$(BIN)/python -m pytest tests --cov --cov-report=term-missing:skip-covered

demo: $(STAMP) ## stress-test four classifiers on the miniature world: demo/report.html, demo/summary.json
	$(BIN)/python demo/run.py

demo-interface: $(STAMP) ## learn a user's dataset and benchmark twelve classifiers on it: demo/interface.html, demo/interface.json
	$(BIN)/python demo/interface.py

validate: $(STAMP) ## hold stress tests against rendered truth: demo/validity.json (SEEDS= SOURCES= PRESET= CLASSIFIERS=DIR BUGS=FILE AGAIN=1)
	PYTHONPATH=demo $(BIN)/python tests/validity/validate.py $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SOURCES),--sources $(SOURCES)) $(if $(PRESET),--preset $(PRESET)) $(if $(CLASSIFIERS),--classifiers $(CLASSIFIERS)) $(if $(BUGS),--bugs $(BUGS)) $(if $(AGAIN),--again)

validate-interface: $(STAMP) ## hold dataset interfaces against rendered truth: demo/interface-validity.json (SEEDS= PICTURES=)
	PYTHONPATH=tests:demo $(BIN)/python tests/validity/validate_interface.py $(if $(SEEDS),--seeds $(SEEDS)) $(if $(PICTURES),--pictures $(PICTURES))

bench: $(STAMP) ## measure the editor's gates beside the reference: bench/editor.json and .md (QUICK=1 ONLY=E2,E3; MODEL=sd14|sd21|sdxl DEVICE=cuda)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m benchmarks $(if $(QUICK),--size quick) $(if $(ONLY),--only $(ONLY)) $(if $(MODEL),--model $(MODEL)) $(if $(DEVICE),--device $(DEVICE))

up: $(STAMP) ## start services and gateway on 127.0.0.1:8080 and leave them running
	$(BIN)/python demo/stack.py up

down: $(STAMP) ## stop what `make up` started
	$(BIN)/python demo/stack.py down

miniature: $(STAMP) ## train the miniature suite from nothing (hours; SMOKE=1 for minutes)
	$(BIN)/python -m faultline_miniature.training $(if $(SMOKE),--smoke --out .miniature/smoke/weights --work .miniature/smoke)

clean: ## remove what the verbs made, but not .venv
	rm -rf $(STATE) .mypy_cache .ruff_cache .pytest_cache build dist
