# For GNU make 3.81 and later, and any POSIX sh.
# make figures PYTHON=/path/to/python uses that interpreter as it is and creates no .venv.
SHELL = /bin/sh
.SUFFIXES:
unexport PYTHONDONTWRITEBYTECODE
export PYTHONUTF8 = 1

ifeq ($(origin PYTHON),command line)
RUN = "$(PYTHON)"
SETUP =
WITH_SITE =
else
RUN = .venv/bin/python
SETUP = .venv/.stamp
WITH_SITE = .venv/.with-site
endif
# Given to make, never taken from the environment.
$(foreach name,PUBLISH FORCE KEEP DISCARD NAME ONLY,$(if $(filter command,$(origin $(name))),,$(eval $(name) =)))
yes = $(filter 1 yes true,$($(1)))
# One word of the shell, whatever is in it: what is given is never a command.
quoted = '$(subst ','\'',$(value $(1)))'
NBVAL_OUT = $(CURDIR)/build/nbval
IN_PARALLEL = -p no:nbval -n auto --dist worksteal

.PHONY: help figures site test check lab bench assumptions grid slow coverage test-browser lock lowest clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1: /p' Makefile | awk -F': ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

figures: $(SETUP) ## Run the notebooks that changed; regenerate figures/ [NB=01 PARAMS="-p gpus 100000" NAME=mine] [PUBLISH=1]
	@$(RUN) -m suite figures $(if $(value PARAMS),--params=$(call quoted,PARAMS)) \
	  $(if $(value NAME),--name=$(call quoted,NAME)) $(if $(call yes,PUBLISH),--publish) $(if $(value NB),-- $(call quoted,NB))

site: $(WITH_SITE) ## Build the static site into build/site, with extra packages of its own
	@$(RUN) docs/build.py

# The large notebooks first, so that both cores end together; the code's structure is a part of make check.
test: $(SETUP) ## Check every notebook's outputs and pictures, then the unit tests [ONLY=training, unit tests of a folder]
ifneq ($(value ONLY),)
	@$(RUN) -m pytest -rs $(IN_PARALLEL) tests --only=$(call quoted,ONLY)
else
	@rm -rf "$(NBVAL_OUT)"; failed=0; \
	RAILCORE_OUT="$(NBVAL_OUT)" $(RUN) -m pytest --nbval --nbval-current-env --nbval-kernel-startup-timeout 600 \
	  -n auto --dist loadfile `ls -S notebooks/*.ipynb` \
	  || { failed=1; echo "A notebook gives other outputs than it is stored with (+ stored, - now)."; }; \
	RAILCORE_NBVAL="$(NBVAL_OUT)" $(RUN) -m pytest -rs $(IN_PARALLEL) tests --ignore=tests/test_structure.py || failed=1; \
	if [ $$failed = 1 ]; then echo "If the change is meant: make figures (PUBLISH=1 for parameters that you edited)," \
	  "then commit what it rewrites."; exit 1; fi
endif

check: $(SETUP) ## Lint, format, types, the structure of code and tests, catalog sources
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pytest tests/test_structure.py tests/test_catalog.py

lab: $(SETUP) ## Open JupyterLab on copies of the notebooks [KEEP=01 or DISCARD=01, of an edited copy]
	@$(RUN) -m suite lab $(if $(value KEEP),--keep=$(call quoted,KEEP)) \
	  $(if $(value DISCARD),--discard=$(call quoted,DISCARD)) $(if $(call yes,FORCE),--force)

bench: $(SETUP) ## Measure the speed targets
	$(RUN) -m pytest benchmarks --benchmark-columns=min,median,max,rounds

assumptions: $(SETUP) ## List what the catalog assumes, with bounds and source
	@$(RUN) -m railcore assumptions

grid: $(SETUP) ## Rebuild data/grid from the packages it comes from, and compare
	@$(RUN) data/grid/rebuild.py

slow: $(SETUP) lowest ## Rebuild data/derived, stop the driver often, run notebooks with foreign books, change all results' last bits
	$(RUN) data/derived/rebuild.py
	RAILCORE_STOPS=40 $(RUN) -m pytest tests/test_stops.py
	$(RUN) -m pytest -m slow --hypothesis-profile thorough tests
	for seed in 1 2; do RAILCORE_ULP=$$seed $(RUN) -m pytest -m "" --hypothesis-profile thorough $(IN_PARALLEL) tests \
	  -k "not (driver or publishing or stops or browser or foreign or surface or fuzz)" || exit 1; done
	for seed in 3 4; do RAILCORE_ULP=$$seed $(RUN) -m pytest -m "" -n auto tests/test_ulp.py || exit 1; done
	$(RUN) tests/mutants.py

# Notebooks run in plain IPython: nbval and the driver kill their kernels, which then write nothing down.
coverage: export COVERAGE_FILE = $(CURDIR)/build/coverage/statements
coverage: $(SETUP) ## Measure which statements of railcore and suite the unit tests and the notebooks run
	@rm -rf build/coverage; mkdir -p build/coverage
	$(RUN) -m pytest --cov=railcore --cov=suite --cov-report= $(IN_PARALLEL) tests
	@for notebook in notebooks/*.ipynb; do echo "$$notebook"; RAILCORE_OUT="$(CURDIR)/build/coverage/out" \
	  $(RUN) -m coverage run -p --source=railcore,suite -m IPython "$$notebook" >build/coverage/printed || exit 1; done
	@$(RUN) -m coverage combine --quiet --append
	$(RUN) -m coverage report --skip-covered --fail-under=95

test-browser: $(SETUP) ## Open JupyterLab in Chromium, run a notebook, move a slider
	$(RUN) -m pytest -rs tests/browser

lock: $(SETUP) ## Write constraints.txt from pyproject.toml, for Python 3.11 and later [UPGRADE=1 for the newest versions]
	$(RUN) -m uv pip compile --quiet $(if $(call yes,UPGRADE),--upgrade) --universal --python-version 3.11 \
	  --fork-strategy fewest --extra sweeps --extra workbooks --group dev --group site --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links -o constraints.txt pyproject.toml

lowest: $(SETUP) ## Run the unit tests with the lowest versions that pyproject.toml allows
	$(RUN) -m uv pip compile --quiet --resolution lowest-direct --python-version 3.11 -o build/lowest.txt pyproject.toml
	$(RUN) -m uv venv --quiet --clear --python 3.11 build/lowest
	$(RUN) -m uv pip install --quiet --python build/lowest -c build/lowest.txt --group dev -e .
	build/lowest/bin/python -m pytest $(IN_PARALLEL) tests --ignore=tests/test_structure.py --ignore=tests/test_site.py

clean: ## Remove build/ and .venv/, which can be made again, unless build/lab holds work of yours [FORCE=1]
	@if [ -d build/lab ] && [ -z "$(call yes,FORCE)" ]; then \
	  own=`$(RUN) -m suite lab --list 2>/dev/null` || own="notebooks that may be edited (no .venv to compare them)"; \
	  if [ -n "$$own" ]; then \
	    echo "build/lab holds what make cannot make again:"; echo "$$own"; \
	    echo "Bring copies back with make lab KEEP=..., move other files, or remove all of it: make clean FORCE=1"; exit 1; \
	  fi; \
	fi
	rm -rf build .venv

.venv/.stamp: constraints.txt
	@set -e; found=; \
	for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; \
	  then found=`$$python -c 'import sys; print(sys.executable)'`; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "The locked packages need Python 3.11 to 3.14, and none was found on the PATH."; \
	  echo "Install one (Debian: apt install python3 python3-venv; macOS: brew install python@3.13),"; \
	  echo "or name one that has the packages of environment.yml: make figures PYTHON=/path/to/python"; exit 1; \
	fi; \
	echo "Setting up .venv, once; 1 to 3 minutes are normal."; \
	echo "  Python: $$found"; \
	echo "  creating .venv"; \
	rm -rf .venv; mkdir -p build; \
	if command -v uv >/dev/null 2>&1; then \
	  with=uv; uv venv --quiet --no-python-downloads --python "$$found" .venv; \
	  install() { uv pip install --compile-bytecode --python .venv/bin/python -c constraints.txt --group dev -e .; }; \
	elif "$$found" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  with=pip; "$$found" -m venv .venv; \
	  pip() { PIP_USER=0 .venv/bin/python -m pip install --disable-pip-version-check -c constraints.txt "$$@"; }; \
	  install() { PIP_QUIET=1 pip pip && PIP_QUIET=0 pip --progress-bar off --group dev -e .; }; \
	else \
	  echo "$$found cannot make virtual environments: on Debian, apt install python3-venv (or install uv)"; exit 1; \
	fi; \
	echo "  downloading packages with $$with"; \
	{ install 2>&1 || echo failed >.venv/failed; } | tee build/setup.log | { n=0; while read -r line; do case $$line in \
	  Collecting*|Processing*) n=$$((n + 1)); if [ $$((n % 25)) = 0 ]; then echo "    $$n"; fi;; \
	  "Installing collected"*) echo "  installing and compiling them";; \
	  Resolved*|Prepared*|Installed*|Bytecode*) echo "  $$line";; \
	esac; done; }; \
	if [ -e .venv/failed ]; then \
	  cat build/setup.log; echo "Setting up .venv failed; $$with says why above (and in build/setup.log)."; exit 1; \
	fi; \
	echo "  done"; touch .venv/.stamp

# What sweeps and the site need beside: .venv/.with-sweeps, .venv/.with-site.
WITH_sweeps = -e '.[sweeps]'
WITH_site = --group site
.venv/.with-%: .venv/.stamp
	@echo "  installing what $* needs"; \
	PIP_USER=0 .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(WITH_$*)
	@touch $@
