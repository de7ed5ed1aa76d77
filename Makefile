# `make` alone lists the verbs. A fresh machine needs python3 (3.11 or newer) and git, nothing else.

SHELL := /bin/sh
VENV ?= .venv
PYTHON ?= python3
PORT ?= 8000
# where `make test-postgres` looks for PostgreSQL; it makes its own scratch databases there
POSTGRES ?= postgres://postgres@127.0.0.1:5432/relaysite
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest
# one process for each core, a file whole in one of them; SIDE_BY_SIDE= runs them one after the other
SIDE_BY_SIDE ?= -n auto --dist loadfile
# where `make agents` installs the real agent programs
AGENTS ?= .agents
# without the slow ones; leave some out or choose some with ARGS="-k baton"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test test-postgres slow agents chaos coverage bench check format messages screens lock clean

help: ## list these verbs
	@echo "make run            web, worker and beat on 127.0.0.1:$(PORT); on an empty database the tour too (PORT=8001)"
	@echo "make test           the default tests on SQLite"
	@echo "make test-postgres  those that meet a database, on PostgreSQL ($(POSTGRES))"
	@echo "make slow           the tests that take longer"
	@echo "make agents         the real agent programs, pinned from npm, against a scripted model without any network"
	@echo "make chaos          the tests that kill processes at random moments"
	@echo "make coverage       branch coverage of the rules by their own tests; fails under 95 %"
	@echo "make bench          one table of measurements, each beside its peer or its limit"
	@echo "make check          format, lint, types, layers, migrations, templates"
	@echo "make format         write the format that make check wants"
	@echo "make messages       collect all texts for translators: LANG=de begins or refreshes German (needs gettext)"
	@echo "make screens        every page in light, dark, on a phone (both) and wide, in test-results/screens"
	@echo "make lock           pin requirements*.in with hashes (needs uv)"
	@echo "make clean          remove caches and the environment; var/ stays"

# ---- the environment: made once, made again when the pinned requirements change ------------------------------------

define make_venv
	@command -v git >/dev/null 2>&1 || { \
		echo "git was not found: install git 2.34 or newer, then run make again" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "$(PYTHON) was not found: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than 3.11: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@if ! $(PY) -c '' >/dev/null 2>&1; then \
		echo "making the environment in $(VENV)"; \
		if command -v uv >/dev/null 2>&1; then uv venv --quiet --clear --python $(PYTHON) $(VENV); \
		elif $(PYTHON) -c 'import venv, ensurepip' >/dev/null 2>&1; then $(PYTHON) -m venv --clear $(VENV); \
		else echo "$(PYTHON) has no venv: install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; fi; \
	fi
endef

define install
	@echo "installing $(1)"
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(PY) --require-hashes $(addprefix -r ,$(1)); \
	else \
		$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes $(addprefix -r ,$(1)); \
	fi
endef

$(VENV)/.ready: requirements.txt
	$(make_venv)
	$(call install,requirements.txt)
	@touch $@

$(VENV)/.ready-dev: requirements.txt requirements-dev.txt $(VENV)/.ready
	$(call install,requirements.txt requirements-dev.txt)
	@touch $@

# ---- run ------------------------------------------------------------------------------------------------------------

run: $(VENV)/.ready ## web, worker and beat as one
	@exec $(PY) manage.py relay serve --port $(PORT)

# ---- tests ----------------------------------------------------------------------------------------------------------

test: $(VENV)/.ready-dev
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow and not chaos" $(ARGS)

test-postgres: $(VENV)/.ready-dev
	DATABASE_URL="$(POSTGRES)" $(PYTEST) $(SIDE_BY_SIDE) -m "(not slow or postgres) and not chaos" $(ARGS)

slow: $(VENV)/.ready-dev
	$(PYTEST) $(SIDE_BY_SIDE) -m "slow" $(ARGS)

# as root in a network namespace with loopback only; a program that is not there is named (in CI it fails)
agents: $(VENV)/.ready-dev $(AGENTS)/.ready
	AGENT_TESTS=$(abspath $(AGENTS)) $(PY) -m tests.agents.isolated $(PYTEST) -m agents tests/agents $(ARGS)

$(AGENTS)/.ready: tests/agents/programs/package.json
	@mkdir -p $(AGENTS)
	@if command -v npm >/dev/null 2>&1; then \
		echo "installing the agent programs in $(AGENTS)"; \
		cp tests/agents/programs/package.json $(AGENTS)/package.json && \
		npm install --prefix $(AGENTS) --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error && \
		touch $@; \
	else echo "npm was not found: install Node.js to test with the real agent programs" >&2; fi

chaos: $(VENV)/.ready-dev
	$(PYTEST) -m "chaos" $(ARGS)

# the rules are pure: whatever their own tests do not reach, nothing has shown
coverage: $(VENV)/.ready-dev
	$(PY) -m coverage run -m pytest -q tests/core $(ARGS)
	$(PY) -m coverage report
	$(PY) -m tests.branches

# goals are printed and not asserted: a busy machine is no bug; BENCH= passes options on (see --help)
bench: $(VENV)/.ready-dev
	$(PY) -m tests.bench $(BENCH)

# look at them; SCREENS="--page relay gate --look phone" takes some of them
screens: $(VENV)/.ready-dev
	$(PY) -m tests.e2e.screens $(SCREENS)

# ---- checks ---------------------------------------------------------------------------------------------------------

check: $(VENV)/.ready-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run
	find templates -name '*.html' | sort | xargs $(VENV)/bin/djade --target-version 5.2 --check
	$(VENV)/bin/djlint --lint --quiet templates

format: $(VENV)/.ready-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	find templates -name '*.html' | sort | xargs $(VENV)/bin/djade --target-version 5.2

# English is in the code; a language is a folder of relaysite/locale, offered as soon as its texts are compiled
messages: $(VENV)/.ready
	@command -v xgettext >/dev/null 2>&1 || { \
		echo "make messages needs gettext: install it (on Debian and Ubuntu: apt install gettext)" >&2; exit 1; }
	@case "$(origin LANG)" in command*) ;; *) \
		echo "make messages LANG=de: name the language whose texts are collected" >&2; exit 2;; esac
	@mkdir -p relaysite/locale
	$(PY) manage.py makemessages --locale $(subst -,_,$(LANG))
	$(PY) manage.py compilemessages --locale $(subst -,_,$(LANG)) --ignore .venv

lock:
	@command -v uv >/dev/null 2>&1 || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		requirements.in --output-file requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		requirements-dev.in --output-file requirements-dev.txt

clean:
	rm -rf $(VENV) .coverage .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache test-results
	find relays relaysite tests -name __pycache__ -type d -prune -exec rm -rf {} +
