# The front door. `make help` lists what there is.
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=
COVERED = base step formats picture data onnx train

all: $(BUILD)/CMakeCache.txt ## build the library and the command into build/
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/CMakeCache.txt:
	@cmake -S . -B $(BUILD) $(CMAKE_FLAGS) >$(BUILD).log 2>&1 || \
	  { scripts/install-packages --tell && cat $(BUILD).log; rm -rf $(BUILD).log $(BUILD)/CMakeCache.txt; exit 1; }
	@rm -f $(BUILD).log

packages: ## install the Debian packages that are missing, those of the tests, too, or say which
	@scripts/install-packages

checks: $(BUILD)/CMakeCache.txt ## build what `make check` runs, too: tests, examples, benches, and kernels for all instruction sets
	@cmake -S . -B $(BUILD) -DNEAP_INSTRUCTION_SETS=all >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target all checks

demo: $(BUILD)/CMakeCache.txt ## train a network inside a budget it would not fit without Neap (under 3 minutes)
	@echo "Building the command (minutes, the first time) ..."
	@cmake --build $(BUILD) -j $(JOBS) --target neap >$(BUILD)/demo.log 2>&1 || { cat $(BUILD)/demo.log; exit 1; }
	@scripts/demo $(BUILD)/neap

check: checks ## a quick pass over every promise, JOBS tests at a time (all cores)
	@scripts/check-folders
	@scripts/check-circles
	@scripts/check-headers
	@scripts/check-words $(WORDS_BASE)
	@scripts/check-words --all
	@cd $(BUILD) && NEAP_QUICK=1 ctest -j $(JOBS) $(CTEST_FLAGS) --output-on-failure --no-tests=error
	@echo "The tests that took most processor time, in seconds:"
	@sed -n 's/^processor seconds: //p' $(BUILD)/Testing/Temporary/LastTest.log | sort -rn | head -12 | sed 's/^/  /'
	@echo "Left out: tests at their full length (make check-all), the Python package (make check-python) and neap.torch (make check-torch)."

check-all: checks ## the tests that a quick pass shortens at their full length; all as on lesser processors; all under the sanitizers, in build-asan; all of neap.torch, with 500 random programs of operators and 3,000 of objects
	@cd $(BUILD) && ctest -j $(JOBS) -L shortened --output-on-failure --no-tests=error
	@scripts/check-limited $(BUILD) avx2 . -j $(JOBS)
	@scripts/check-limited $(BUILD) generic . -j $(JOBS)
	@NEAP_SANITIZED=1 ASAN_OPTIONS=detect_leaks=1 OMP_NUM_THREADS=2 \
	  $(MAKE) check BUILD=build-asan CMAKE_FLAGS="-DNEAP_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug"
	@cd build-asan && NEAP_SANITIZED=1 ASAN_OPTIONS=detect_leaks=1 ctest -j $(JOBS) -R '^fuzz_' --output-on-failure --no-tests=error
	@NEAP_FUZZ_PROGRAMS=500 NEAP_FUZZ_OBJECTS=3000 scripts/check-torch $(BUILD)

check-limited: checks ## tests of kernels, bits and budgets as on processors with AVX2 alone, and of kernels with neither
	@scripts/check-limited $(BUILD) avx2 limited -j $(JOBS)
	@scripts/check-limited $(BUILD) generic kernels -E test_ops_ -j $(JOBS)

check-python: checks ## install the Python package into BUILD/python-venv and run its tests (python3, venv; the network)
	@scripts/check-python $(BUILD)

check-torch: checks ## install it beside PyTorch and run a quick pass over the tests of neap.torch (NEAP_TORCH_PYTHON: a Python that has PyTorch)
	@NEAP_QUICK=1 scripts/check-torch $(BUILD)

check-onednn3: ## build with oneDNN 3 from PyPI in build-onednn3 and run the tests of kernels (python3, venv; the network)
	@scripts/install-onednn3 build-onednn3/onednn
	@cmake -S . -B build-onednn3 -DCMAKE_PREFIX_PATH=$(CURDIR)/build-onednn3/onednn $(CMAKE_FLAGS) >/dev/null
	@cmake --build build-onednn3 -j $(JOBS) --target tests_of_kernels
	@cd build-onednn3 && NEAP_QUICK=1 ctest -j $(JOBS) -L kernels --output-on-failure --no-tests=error

check-aarch64: ## build the command for 64-bit ARM in build-aarch64 and run a choice of tests under qemu (docs/packages.md: what that needs)
	@cmake -S . -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=scripts/aarch64.cmake $(CMAKE_FLAGS) >/dev/null
	@cmake --build build-aarch64 -j $(JOBS) --target neap portable_tests
	@cd build-aarch64 && NEAP_QUICK=1 ctest -j $(JOBS) -L portable --output-on-failure --no-tests=error

coverage: ## how much of the checker, the readers and the checkpoints the tests in C run, by file, in build-coverage (gcov; JOBS)
	@cmake -S . -B build-coverage -DCMAKE_BUILD_TYPE=Debug -DNEAP_INSTRUCTION_SETS=native \
	  -DCMAKE_C_FLAGS="--coverage -O1 -Wno-maybe-uninitialized" $(CMAKE_FLAGS) >/dev/null
	@cmake --build build-coverage -j $(JOBS) --target $(COVERED:%=%_tests)
	@scripts/coverage build-coverage $(COVERED)

check-chroots: ## build, test, install and ship from a clean clone in fresh chroots of Debian 12 and 13 (root, debootstrap, git; the network; docs/packages.md)
	@scripts/check-in-chroot bookworm
	@scripts/check-in-chroot trixie

bench: all ## measure step time against budget (python3; an idle machine), BUILD/bench.jsonl
	@cmake --build $(BUILD) -j $(JOBS) --target benches
	@bench/run $(BUILD)

papers: $(BUILD)/CMakeCache.txt ## print the published tables of the papers beside ours (minutes; PAPERS="-m FOLDER TABLE ...")
	@cmake --build $(BUILD) -j $(JOBS) --target papers
	@$(BUILD)/papers $(PAPERS)

install: all ## install library, headers, pkg-config file, command, its completion and manual page (PREFIX, DESTDIR)
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

packages-to-ship: ## the Debian package for this release and the Python wheel, in build-packages, checked by lintian and twine (python3, venv; the network)
	@scripts/packages-to-ship build-packages $(JOBS)

static: ## a `neap` for small boards in build-static that needs no library, with kernels of our own in place of oneDNN's
	@cmake -S . -B build-static -DNEAP_STATIC=ON -DNEAP_ONEDNN=OFF $(CMAKE_FLAGS) >/dev/null
	@cmake --build build-static -j $(JOBS) --target neap

check-static: static ## whether that command trains inside a budget and needs no library; a choice of tests with its kernels
	@scripts/check-static build-static/neap
	@cmake --build build-static -j $(JOBS) --target static_tests
	@cd build-static && NEAP_QUICK=1 ctest -j $(JOBS) -L 'portable|static' --output-on-failure --no-tests=error

format: ## let clang-format lay out all sources
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint: $(BUILD)/CMakeCache.txt ## clang-tidy, and whether clang-format would change anything; ruff, where it is installed
	@git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
	@git ls-files 'src/*.c' 'cli/*.c' | grep -v /isa/ | xargs clang-tidy --quiet -p $(BUILD)
	@! command -v ruff >/dev/null || { ruff check python && ruff format --check python; }

clean: ## remove what was built
	@rm -rf $(BUILD) build-asan build-onednn3 build-packages build-static build-aarch64 build-chroots build-coverage

help: ## this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 21

.PHONY: all packages checks demo check check-all check-limited check-python check-torch check-onednn3 check-aarch64 coverage check-chroots bench papers install packages-to-ship static check-static format lint clean help
