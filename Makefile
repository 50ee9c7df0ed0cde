# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread a process: two test workers on two cores are slower with more.
export OMP_NUM_THREADS := 1
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
APT := DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

.PHONY: demo test browser lint docs bench leaderboard clean

test: $(VENV)/dev.stamp browser lint
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --durations=10

# The report's pages are opened in Debian's Chromium; where it cannot be had, those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	{ $(APT) chromium || { apt-get update -qq && $(APT) chromium; }; } >/dev/null 2>&1; } || true

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# Two threads: alone on two cores a step takes little more than half the time of one thread.
demo: export OMP_NUM_THREADS := 2
demo: $(VENV)/demo.stamp
	$(BIN)/python examples/demo.py

docs: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/step_time.py

# MODEL: folder of an encoder, NAME: what the table calls it, DATA: folder of sets. Goes on where it stopped.
leaderboard: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.leaderboard all --model "$(MODEL)" --name "$(NAME)" --data "$(DATA)" \
	--file "build/leaderboard/$(NAME).safetensors"

# The constraints hold torch at one version: anything looser downloads gigabytes of CUDA.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q torch==2.13.0 -c constraints.txt

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@

$(VENV)/demo.stamp: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -c constraints.txt -e ".[demo]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
