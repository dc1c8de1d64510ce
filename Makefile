# The only door. `make demo` and `make test` work on a fresh Debian 12 machine.

KTAX := $(or $(CARGO_TARGET_DIR),target)/release/ktax

.PHONY: help setup build demo test check unit integration newer-qemu browser bench picture bless answers clean \
    test-kernels test-long test-exits test-hosts test-fleet test-install controls fuzz dist deb functions

help:
	@echo 'make setup   install what is missing from the distribution (called by the others)'
	@echo 'make demo    what do the default security modules cost? some minutes, then a table'
	@echo 'make test    everything that needs no KVM, some minutes; the last lines say what was skipped and why'
	@echo 'make check   formatting and lints'
	@echo 'make test-long     the controls on all rows, also those of which a run takes a minute, and a row of each answer on kernels that are not built; not part of make test'
	@echo 'make test-kernels   builds kernels from source and measures them, and a row of each answer on such; not part of make test'
	@echo 'make test-exits  guests on KVM, here and in a KVM host within QEMU; not part of make test'
	@echo 'make test-hosts  KVM hosts of other architectures; make test-kernels runs it too'
	@echo 'make test-fleet  a campaign on a Slurm of two nodes; make test-long runs it too'
	@echo 'make dist    a tarball to be installed anywhere, into target/dist; the same tree gives the same bytes'
	@echo 'make deb     a Debian package, into target/dist'
	@echo 'make test-install  builds both twice, and tries them in a clean Debian 12 and 13; not part of make test'
	@echo 'make controls  a hundred timed comparisons on this machine, which must be idle; not part of make test'
	@echo 'make fuzz    half an hour of fuzzing the readers of files; not part of make test'
	@echo 'make bench   how fast ktax itself is, as ratios within one run'
	@echo 'make answers run all experiments and write what came out below each'
	@echo 'make bless   rewrite the golden files of the reports'
	@echo 'make picture  make the picture of a page in the README'

setup:
	@sh scripts/setup.sh

build: setup
	cargo build --release --locked

demo: build
	@rm -rf target/demo
	$(KTAX) compare experiments/lsm.toml --out target/demo || test $$? -eq 3

# One test more than CPUs: some wait for a guest that hangs.
test: setup check
	-@$(MAKE) --no-print-directory newer-qemu browser
	@sh scripts/tests.sh "--workspace --lib --test tidy --test fast --test boots -- --test-threads $$(($$(nproc) + 1))" \
	    '--workspace --doc'

# Beside the installed one, into target/: the tests run on both. Without it they say that they skip.
newer-qemu:
	sh scripts/qemu-backports.sh $(or $(CARGO_TARGET_DIR),target)/qemu-backports

# Chromium for the tests of pages; without it they say that they skip.
browser:
	sh scripts/setup-browser.sh $(or $(CARGO_TARGET_DIR),target)/browser

check:
	@cargo fmt --version >/dev/null && cargo clippy --version >/dev/null || \
	    { echo 'check: rustfmt or clippy is missing; on Debian 12 type: sudo apt-get install' \
	      'rustfmt-web rust-web-clippy'; exit 1; }
	@# Also what a macro declares, which cargo fmt does not find.
	find src crates tests benches fuzz -name '*.rs' -not -path '*/target/*' | xargs rustfmt --check --edition 2024
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --lib --quiet

# Some seconds: all that boots nothing.
unit:
	@sh scripts/tests.sh '--workspace --lib --test tidy --test fast'

# Each of these boots real kernels, as many at a time as there are CPUs; they share one cache below target/.
integration:
	@sh scripts/tests.sh '--workspace --test boots'

# Kernels from the distribution's source: many minutes the first time.
test-kernels: setup
	@sh scripts/tests.sh '--workspace --test long -- --test-threads 1 source:: answers::built::'
	$(MAKE) --no-print-directory test-hosts

# Hosts that are cross-built, some minutes the first time, or fetched. What cannot be had is skipped, and said.
test-hosts: setup
	-@sh scripts/setup-hosts.sh
	@sh scripts/tests.sh '--workspace --test long -- --test-threads 1 --nocapture hosts::'

# Real KVM: this machine's where it has one, whose eBPF programs are counted, one test at a time; and that of a host within QEMU.
test-exits: setup
	@sh scripts/tests.sh '--workspace --test guests -- --test-threads 1 vmm:: exits_live:: exits_command::' \
	    '--workspace --test guests -- --test-threads 2 --skip vmm:: --skip exits_live:: --skip exits_command::'

# A real Slurm in namespaces of its own, which needs root. Where it cannot be had the test is skipped, and said.
test-fleet: setup
	-@sh scripts/setup-slurm.sh
	@sh scripts/tests.sh '--workspace --test long -- fleet::'

# Some minutes; target/dist has what comes out.
dist: setup
	sh scripts/dist.sh

deb: setup
	-@sh scripts/setup-roots.sh
	sh scripts/deb.sh

# Half an hour; needs root, for clean roots. Where they cannot be had the test is skipped, and said.
test-install: setup
	-@sh scripts/setup-roots.sh
	@sh scripts/tests.sh '--workspace --test long -- install::'

# Comparisons of equals, and of 5 % that were planted, on the running kernel. METHODOLOGY.md has what came out.
controls: setup
	cargo test --release --locked --test long -- --ignored --nocapture hundred::

# Coverage-guided, ten minutes for each reader of files; needs cargo-fuzz. METHODOLOGY.md has what came out.
fuzz:
	cd fuzz && for target in exit_timing exit_trace tracepoint_format; do \
	    cargo fuzz run --features fuzzer -s none $$target -- -max_total_time=600 -max_len=16384 || exit 1; done

# The controls on all rows, also those of which one run takes a minute; the documents' long examples; a row of each
# answer for which no kernel is built; a busy machine.
LONG := answers:: applications:: cpus:: disks:: fleet:: functions:: machine:: programs:: publication:: versions::
test-long: setup
	-@sh scripts/setup-slurm.sh
	-@sh scripts/setup-programs.sh
	@sh scripts/tests.sh '--workspace --test boots -- --ignored --skip docs::what_is_measured_here' \
	    '--workspace --test long -- --test-threads 1 --skip answers::built:: $(LONG)'

# What is timed is measured, not remembered.
bench: export KTAX_STORE =
# Ratios in one run; the last lines say where the time of a warm demo goes.
bench: build
	-@$(MAKE) --no-print-directory newer-qemu
	cargo bench --locked --bench speed
	cargo bench --locked --bench cpus
	cargo bench --locked --bench native
	cargo bench --locked --bench statistics
	cargo bench --locked --bench exits
	cargo bench --locked --bench store
	cargo bench --locked --bench fleet
	cargo bench --locked --bench source
	@rm -rf target/bench && mkdir target/bench
	$(KTAX) compare experiments/lsm.toml --out target/bench/first >/dev/null || test $$? -eq 3
	$(KTAX) compare experiments/lsm.toml --out target/bench/warm >/dev/null || test $$? -eq 3

# The README's picture of a page. Needs Chromium: `make browser` installs it.
picture: build browser
	sh scripts/picture.sh $(KTAX) docs/page.png

bless:
	BLESS=1 cargo test --locked --test fast -- docs:: golden:: keys:: publication:: published::
	BLESS=1 cargo test --locked --test boots -- docs::

# What each experiment says here and now, below its question. Half an hour, and the builds of kernels the first time.
answers: build
	-@$(MAKE) --no-print-directory newer-qemu
	sh scripts/answers.sh

# Which functions each row executes: the table behind `ktax workloads --touching`. Some ten minutes.
functions: build
	BLESS=1 cargo test --locked --test long -- functions::

clean:
	cargo clean
