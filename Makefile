# The front door. The work is done by meson and by the scripts; `make help` lists the doors.

.DEFAULT_GOAL := build
.PHONY: build run down test test-asan test-clang test-all test-cgroup2 test-valgrind fuzz soak code-interpreter bench format check install clean help packages

build: packages ## install what is needed to build, compile into build/
	@scripts/build gcc

packages:
	@scripts/install-packages build develop

run: ## build what runs, start the daemon if none runs, run a first command in a sandbox
	@scripts/install-packages build run
	@scripts/build programs
	@scripts/quickstart up

down: ## stop the daemon that `make run` started
	@scripts/quickstart down

test: ## everything: checks, all builds, all tests
	@scripts/test

test-asan: ## sanitized build: unit and integration tests
	@scripts/test asan

test-clang: ## clang build: unit tests
	@scripts/test clang

test-all: ## test, and also unit tests with clang, security and fault tests sanitized, test-valgrind, test-cgroup2
	@scripts/test all

test-valgrind: ## daemon and command line under valgrind
	@scripts/test valgrind

test-cgroup2: ## limits on cgroup v2, in an emulated virtual machine
	@scripts/test cgroup2

fuzz: packages ## fuzz every parser, each for FUZZ_SECONDS (60)
	@scripts/install-packages test
	@scripts/fuzz

soak: build ## mixed load with kills for SOAK_SECONDS (3600), then a look for what has leaked
	@scripts/install-packages run test
	@/usr/bin/python3 tests/soak/soak.py

code-interpreter: build ## make the template code-interpreter-v1 for the running daemon
	@scripts/install-packages run
	@scripts/code-interpreter-template

bench: build ## compare with bwrap, runc and docker
	@scripts/install-packages run bench
	@tests/bench/run

format: ## format all C code
	@scripts/format

check: ## formatting, include direction, source lists
	@scripts/check

install: packages ## install below PREFIX (/usr/local), into DESTDIR if that is set
	@scripts/build gcc $(if $(PREFIX),-Dprefix=$(PREFIX))
	@DESTDIR=$(DESTDIR) meson install -C build --no-rebuild

clean: ## remove all build directories
	@rm -rf build build-clang build-asan build-valgrind build-fuzz build-old

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
