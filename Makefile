# trgnb: `make book` and `make test` are all that is needed; `make` alone lists the rest.
#   PYTHON=/path   the Python to make the environment with (default: the newest of 3.13, 3.12, 3.11 that runs)
#   VENV=folder    the virtual environment (default: .venv)
#   LAB_FLAGS=...  more options for JupyterLab, such as --no-browser

PYTHON ?=
VENV   ?= .venv
PORT   ?= 8000
LAB_FLAGS ?=

PY     := $(VENV)/bin/python
# Tests and benchmarks run on the CPU: without this JAX warns on machines that have an accelerator.
export JAX_PLATFORMS := cpu
# One thread for LAPACK: the matrices are small, sums keep their order, and other work on the machine does not
# stall a decomposition that waits for its second thread.
export OPENBLAS_NUM_THREADS ?= 1
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help book test units numbers faults browser pages accept lab serve bench clean lock venv

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

book: venv ## execute every chapter and write _build/html/index.html
	@$(PY) book/_make/build.py

test: ## everything that must pass: units, book, numbers, faults, browser
	@$(MAKE) --no-print-directory units
	@$(MAKE) --no-print-directory numbers
	@$(MAKE) --no-print-directory faults
	@$(MAKE) --no-print-directory pages
	@echo "All passed: units, book, numbers, faults, browser."

units: venv ## only the unit tests of the package and the source tree
	$(PY) -m pytest tests --ignore tests/numbers --ignore tests/browser

numbers: book ## execute the chapters afresh and compare their numbers with the accepted ones
	$(PY) -m pytest tests/numbers/test_gate.py

# Faults are put into copies of the book that is there, which has to hold.
faults: venv
	$(PY) -m pytest tests/numbers/test_faults.py

browser: book ## build the book and look at its pages in headless Chromium
	@$(MAKE) --no-print-directory pages

# The pages that are there, without building them again.
pages: venv
	$(PY) -m pytest tests/browser

accept: book ## execute the chapters afresh and accept their numbers (then read the git diff)
	$(PY) -m trgnb.numbers accept

lab: venv ## JupyterLab on the chapters (right click: Open With, Notebook)
	$(PY) -m jupyterlab --ServerApp.root_dir=book $(LAB_FLAGS)

serve: book ## build the book and serve it on localhost (PORT=8000)
	@echo "Serving http://localhost:$(PORT)/ (Ctrl-C stops)"
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

bench: venv ## time and memory of the methods, side by side, and of sweeps
	$(PY) benchmarks/methods.py
	$(PY) benchmarks/traced.py
	$(PY) benchmarks/sweep.py

clean: ## remove what was built and the tests' caches (the environment stays: rm -rf .venv)
	rm -rf _build .pytest_cache .hypothesis

lock: ## make requirements.txt anew from pyproject.toml
	@python=$$(sh book/_make/python.sh $(VENV)) && "$$python" book/_make/lock.py

venv:
	@python=$$(sh book/_make/python.sh $(VENV)) && "$$python" book/_make/venv.py $(VENV)
