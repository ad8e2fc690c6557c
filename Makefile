# setup   install into .venv (done by the others when needed)
# demo    start everything, upload long documents, ask in English and Chinese, show citations and cost
# test    check, then unit, integration and acceptance tests on the real parts
# check   format, lint, types, layers
# bench   every benchmark, into bench-NAME.json

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.longleaf-installed
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
# One more than there are cores: one of them waits for an engine most of the time. More take too much memory.
JOBS := $(shell echo $$(( $(CORES) < 4 ? $(CORES) + 1 : 5 )))

.PHONY: setup demo test unit check format bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml deploy/constraints.txt deploy/setup.sh
	deploy/setup.sh $(VENV)
	@touch $@

demo: setup
	$(BIN)/longleaf demo

check: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

unit: setup
	$(BIN)/pytest -n $(JOBS) --dist loadfile tests/unit

test: check
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder tests/integration tests/unit
	$(BIN)/pytest tests/acceptance

bench: setup
	@set -e; for name in $$($(BIN)/python -m bench --list); do \
	  $(BIN)/longleaf bench $$name --json bench-$$name.json; done

clean:
	rm -rf .demo-home .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
