# The two commands of the README are `make report` and `make test`; each makes .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: report test test-slow check bench reference clean-venv

report: .venv/core
	$(BIN)/python run_all.py

test: .venv/dev
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: .venv/slow
	$(BIN)/python -m pytest -m slow

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/slow
	$(BIN)/python -m benchmarks

# The committed verdicts and the README's table of them; goes on where it stopped.
reference: .venv/core
	$(BIN)/python run_all.py claims --preset standard --budget 2h --export results/reference
	$(BIN)/python -m analysis.verdicts.readme

.venv/core: requirements.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is %d.%d" % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -r requirements.txt
	touch $@

.venv/dev: .venv/core requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

.venv/slow: .venv/dev requirements-extras.txt
	$(BIN)/python -m pip install --quiet -r requirements-extras.txt
	touch $@

clean-venv:
	rm -rf .venv
