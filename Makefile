# Everything that is done here, each in one line, on a machine that has Python 3.11 or newer and make.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: setup demo test check format bench eval lock clean

setup: $(READY)

# uv where it is there, venv and pip where it is not. Compiled, since some environments forbid Python to.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, as $(PYTHON) or PYTHON=...")'
	@echo "Setting up .venv, which takes some seconds, once."
	@if command -v uv >/dev/null; then \
		uv venv -q --allow-existing --python $(PYTHON) .venv && \
		uv pip install -q --python $(BIN)/python -r requirements.lock && \
		uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
		$(PYTHON) -m venv .venv && \
		$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.lock && \
		$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
	@$(BIN)/python -m compileall -q src
	@touch $@

demo: setup
	@$(BIN)/python -m mcp_workbench.demo

NODE_SERVERS := tests/node_modules/.package-lock.json

# Two workers a core: most tests wait for a process.
test: setup $(NODE_SERVERS)
	@$(BIN)/python -m pytest -n $$((2 * $$(nproc 2>/dev/null || echo 2))) --dist worksteal

# Real servers to test with. Where there is no npm the script says so, and their tests are skipped.
$(NODE_SERVERS): tests/package-lock.json
	@bash tests/install_node_servers.sh

check: setup
	@$(BIN)/ruff format --check -q .
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup
	@$(BIN)/ruff check -q --fix .
	@$(BIN)/ruff format -q .

# With DATA, a folder as `make eval` takes it, also what agents are told, in tokens.
bench: setup
	@$(BIN)/python -m bench --out bench/last.json
	@if [ -n "$(DATA)" ]; then $(BIN)/python -m evals.tokens --data $(DATA); fi

# DATA is a folder with tools.jsonl and queries.jsonl: docs/search.md says what stands in them.
eval: setup
	@$(BIN)/python -m evals --data $(DATA)

# The lock names versions and hashes of every dependency, also of the checks and tests.
lock: setup
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		--group dev pyproject.toml -o requirements.lock

clean:
	@rm -rf .venv build dist src/*.egg-info
