# Each goal installs what is missing first (Debian's packages), builds, and does its work. A second run does neither again.
JOBS := $(shell nproc)
PREFIX ?= /usr/local

.PHONY: help build demo install test test-cuda bundle asan fuzz format tidy bench clean

help:
	@echo "make build   install what is missing and build; the binary is build/release/outsize"
	@echo "make demo    the same, then train a network inside a byte budget"
	@echo "make install PREFIX=/usr/local: binary, C++ library, CMake package, shell completion"
	@echo "make test    the same, then all tests (PyTorch is installed to compare with)"
	@echo "make test-cuda  the tests that need an NVIDIA card, where one is"
	@echo "make bundle  one archive of the binary, those tests and their libraries, for a machine with a card"
	@echo "make asan    the C++ tests under address and undefined-behaviour sanitizers"
	@echo "make fuzz    the readers of files against made-up input; MINUTES=10 each (docs/fuzzing.md)"
	@echo "make bench   single ops and training beside PyTorch: time and memory"
	@echo "make format  clang-format over the sources; make tidy: clang-tidy; make clean"

build/%/build.ninja:
	@cmake --preset $*

build:
	@scripts/install build
	@$(MAKE) --no-print-directory build/release/build.ninja
	@cmake --build build/release -j $(JOBS) --target outsize

demo: build
	@examples/demo

install: build
	@cmake --build build/release -j $(JOBS) --target outsize_library
	@cmake --install build/release --prefix "$(PREFIX)" >/dev/null
	@echo "installed below $(PREFIX): bin/outsize, the library with its headers and CMake package, shell completion"

test:
	@scripts/install build test
	@$(MAKE) --no-print-directory build/release/build.ninja
	@cmake --build build/release -j $(JOBS)
	@ctest --preset release -j $(JOBS) --progress

test-cuda: build
	@cmake --build build/release -j $(JOBS) --target card_programs
	@scripts/test-cuda

bundle: build
	@cmake --build build/release -j $(JOBS) --target card_programs
	@scripts/bundle

asan:
	@scripts/install build
	@$(MAKE) --no-print-directory build/asan/build.ninja
	@cmake --build build/asan -j $(JOBS)
	@ctest --preset asan -j $(JOBS) --progress -LE 'torch|scripts'

MINUTES := 10
fuzz:
	@tests/fuzz/run $(MINUTES)

bench: build
	@scripts/install test
	@cmake --build build/release -j $(JOBS) --target op_bench
	@bench/op/run.py
	@bench/train/run.py

format:
	@git ls-files '*.h' '*.cpp' '*.cu' | xargs clang-format -i

tidy: build/debug/build.ninja
	@git ls-files 'src/*.cpp' 'cli/*.cpp' | xargs clang-tidy -p build/debug --quiet

clean:
	@rm -rf build
