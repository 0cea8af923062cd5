# What a newcomer runs: `make demo`, `make test`. `make help` lists the rest.
#
# One cargo profile (`testing`, see Cargo.toml) and one target directory serve the Rust tests and the extension, so
# that what they share is compiled once.

PYTHON ?= python3
VENV ?= .venv
DEMO_ARGS ?=
FUZZ_ARGS ?=
# What `make asan` tests.
ASAN ?= -p proactor-engine -p proactor-file
# How long `make fuzz` takes.
SECONDS ?= 3600
# How many of its programs and loads `make soak` runs, in percent.
SOAK ?= 100
BENCH_ARGS ?=
GNU_TESTS_ARGS ?=
REDIS_SUITE_ARGS ?=
UVLOOP_SUITE_ARGS ?=
# How many processes the Python tests run in at once (tools/test_parts.py).
JOBS ?= 1
# More interpreters for `test-all`, beside those it finds; ENDS=1 takes only the oldest and the newest.
PYTHONS ?=
# What `make release-check` compares with; empty: the last tag.
BASELINE ?=
ENDS ?=
# Of the extension and all below it: FEATURES=bpf takes clang (docs/bench.md).
FEATURES ?=
CARGO_FEATURES = $(if $(FEATURES),--features proactor-python/$(FEATURES))
# Of the native binary.
PROFILE ?= release

BIN = $(VENV)/bin
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name "*.rs" -o -name "*.c" -o -name Cargo.toml)
PYTHON_SOURCES := $(shell find python -name '*.py' -o -name '*.pyi')

# What the environment of `bench` has beside the package.
WITH_bench = --requirement requirements/comparisons.txt

# Ray has 70 MB; the tests of it and of servers run on one Python only.
WITH_.venv = --requirement requirements/docs.txt --requirement requirements/ray.txt --requirement requirements/servers.txt --requirement requirements/types.txt

# Clippy and the tests then look at the same interpreter as the extension's build.
export PYO3_PYTHON = $(abspath $(BIN)/python)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# The tests know by it what was built.
export FEATURES

.DELETE_ON_ERROR:
.PRECIOUS: %/.installed
.PHONY: help demo test test-rust test-python test-all native gnu-tests asan lint check-aarch64 dropin-suites bench bench-servers
.PHONY: release-check docs man site clean fuzz soak redis-suite uvloop-suite

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv-demo/.installed ## read a dataset tree with every backend (DEMO_ARGS="--help")
	.venv-demo/bin/python examples/demo.py $(DEMO_ARGS)

test: test-rust test-python ## build once; Rust and Python tests on the default Python

test-rust: $(VENV)/.installed
	cargo test --locked --workspace $(CARGO_FEATURES) --profile testing

test-python: $(VENV)/.built
	$(BIN)/python $(if $(filter 1,$(JOBS)),-m pytest,tools/test_parts.py --jobs $(JOBS) $(BIN)/python --) $(PYTEST_ARGS)

test-all: ## Python tests on each CPython from 3.10 to 3.13 found (PYTHONS="more", ENDS=1, JOBS=2)
	@pythons=$$($(PYTHON) tools/find_pythons.py $(if $(ENDS),--ends) $(PYTHONS)) || exit 1; \
	echo "$$pythons"; echo "$$pythons" | while read -r version python; do \
	    $(MAKE) ".venv-$$version/.built" PYTHON="$$python" VENV=".venv-$$version" </dev/null || exit 1; \
	done && \
	$(PYTHON) tools/test_parts.py --jobs $(JOBS) $$(echo "$$pythons" | sed 's|^\([^ ]*\) .*|.venv-\1/bin/python|') -- $(PYTEST_ARGS)

# Static: it runs on every Linux of this architecture, and starts in two thirds of the time, which a copy of a few files
# is made of. For a named target only, because the compiler's own plugins cannot be static.
native: HOST = $(shell rustc -vV | sed -n 's/^host: //p')
native: PRELOAD = $(abspath target/$(PROFILE:dev=debug)/libproactor_preload.so)
native: ## the command as one static binary, target/native/proactor
	# Loaded into dynamic programs (`proactor run`), so not static itself.
	RUSTFLAGS="$(RUSTFLAGS) -C strip=symbols" cargo build --locked --profile $(PROFILE) -p proactor-preload
	PROACTOR_EMBED="$(PRELOAD)" RUSTFLAGS="$(RUSTFLAGS) -C target-feature=+crt-static -C strip=symbols" cargo build --locked --profile $(PROFILE) --target $(HOST) \
	    -p proactor -p proactor-bench
	ln -sfn $(HOST)/$(PROFILE:dev=debug) target/native

# The stable compiler ships the sanitizer's library and takes the flag with RUSTC_BOOTSTRAP.
asan: HOST = $(shell rustc -vV | sed -n 's/^host: //p')
asan: ## AddressSanitizer under the Rust tests of the engine and of crates/file (ASAN="-p proactor-file")
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(RUSTFLAGS) -Zsanitizer=address" RUSTDOCFLAGS="-Zsanitizer=address" cargo test --locked $(ASAN) \
	    --profile testing --target $(HOST) --target-dir target/asan

fuzz: $(VENV)/.built ## every fuzzer with new seeds, for an hour in all (SECONDS=60, FUZZ_ARGS="--help")
	$(BIN)/python fuzz/run.py --seconds $(SECONDS) $(FUZZ_ARGS)

soak: export PROACTOR_SOAK = $(SOAK)
soak: ## the long tests: every error of every call of a copy, 100,000 programs on the simulated kernel, and loads with every byte checked (SOAK=20)
	cargo test --locked -p proactor-net --profile testing --lib -- --ignored --exact --nocapture simulator::soak
	cargo test --locked -p proactor-net -p proactor-preload --profile testing --test load -- --ignored --nocapture --test-threads=1 soak_
	cargo test --locked -p proactor --profile testing --test injected

gnu-tests: native ## GNU's own tests of cp on the static binary (GNU_TESTS_ARGS="--control"); takes Debian's apt
	$(PYTHON) tools/gnu_tests.py $(GNU_TESTS_ARGS)

redis-suite: $(VENV)/.built ## Redis's own tests on it under `proactor run`; takes Debian's apt (REDIS_SUITE_ARGS="--smoke")
	$(BIN)/python tools/redis_suite.py $(REDIS_SUITE_ARGS)

uvloop-suite: $(VENV)/.built ## uvloop's and asyncio's own tests under `proactor run` (UVLOOP_SUITE_ARGS="--smoke")
	$(BIN)/python tools/uvloop_suite.py $(UVLOOP_SUITE_ARGS)

lint: $(VENV)/.built ## formatters, clippy, rustdoc, ruff, mypy, stubtest, pyright, licences, structure
	cargo fmt --all --check
	cargo clippy --locked --workspace $(CARGO_FEATURES) --all-targets -- -D warnings
	cargo clippy --locked -p proactor-engine --no-default-features --lib -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/stubtest --allowlist tools/stubtest.allow --ignore-unused-allowlist proactor
	$(BIN)/python tools/stub_docs.py --check
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 PYTHONPATH=python $(BIN)/pyright --pythonpath $(BIN)/python --verifytypes proactor --ignoreexternal > target/types.txt || \
	    { cat target/types.txt; exit 1; }
	$(BIN)/python tools/licences.py
	$(BIN)/python tools/tidy.py
	$(BIN)/python tools/structure.py

release-check: $(VENV)/.built ## packages, docs.rs, the oldest Rust, the interface against the last tag (BASELINE=REVISION)
	$(BIN)/python tools/release_check.py $(if $(BASELINE),--baseline $(BASELINE))

check-aarch64: ## compile all of it for aarch64 (once before: rustup target add aarch64-unknown-linux-gnu)
	PYO3_CROSS=1 PYO3_CROSS_PYTHON_VERSION=3.11 \
	    cargo check --locked --workspace --all-targets --target aarch64-unknown-linux-gnu

dropin-suites: $(VENV)/.built ## the replaced packages' own tests on proactor.compat (from the package index)
	$(BIN)/python tools/dropin_suites.py

bench: .venv-bench/.installed ## all comparisons, a quarter of an hour, and docs/speed.md (BENCH_ARGS="--help")
	.venv-bench/bin/python comparisons/bench.py $(BENCH_ARGS)

bench-servers: .venv-bench/.installed ## those of servers alone, in under half an hour
	.venv-bench/bin/python comparisons/bench.py servers_lockstep servers_streams servers_live servers_redis servers_programs \
		servers_model --minutes 24 $(BENCH_ARGS)

docs: ## the Rust crates' documentation, in target/doc
	cargo doc --locked --workspace --no-deps

site: .venv-site/.installed ## the documentation as a site, in target/site/html; a broken link fails
	.venv-site/bin/python tools/site_pages.py

man: ## man pages of the command and its subcommands, in target/man
	cargo run --locked --quiet --profile testing -p proactor --example man -- target/man

clean: ## remove everything that was built, installed or generated here
	rm -rf target .venv .venv-* .demo .dropin dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests tools $(wildcard examples) -depth \( -name '*.so' -o -name __pycache__ \) -exec rm -rf {} +

# What a developer needs, and no build.
%/.installed: $(wildcard requirements/*.txt)
	$(PYTHON) tools/find_pythons.py --check
	$(PYTHON) -m venv --clear $*
	$*/bin/python -m pip install --quiet --use-pep517 --requirement requirements/dev.txt $(WITH_$*)
	touch $@

# The extension goes beside the Python sources, which the environment uses as they lie there.
%/.built: %/.installed $(RUST_SOURCES)
	VIRTUAL_ENV=$(abspath $*) $*/bin/maturin develop $(if $(FEATURES),--features $(FEATURES)) --profile testing
	touch $@

# The demo and the comparisons use the package as a user installs it.
.venv-demo/.installed .venv-bench/.installed: .venv-%/.installed: $(RUST_SOURCES) $(PYTHON_SOURCES)
	$(PYTHON) tools/find_pythons.py --check
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	env -u PYO3_PYTHON .venv-$*/bin/python -m pip install --quiet . $(WITH_$*)
	touch $@

.venv-site/.installed: requirements/site.txt
	$(PYTHON) -m venv --clear .venv-site
	.venv-site/bin/python -m pip install --quiet --requirement requirements/site.txt
	touch $@

.venv-bench/.installed: requirements/comparisons.txt
