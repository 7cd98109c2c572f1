# What a newcomer needs: `make run`, then `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

SEEDS ?= 10000
# Tests at once: many wait for other programs, and leave the processor to others.
TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
SECONDS_EACH ?= 60
TARGET ?= all
ROW ?=
BENCH ?=
LAB ?=
# Where cargo builds to, unless it is told otherwise.
CARGO_TARGET_DIR ?= target
PROGRAM = $(CARGO_TARGET_DIR)/release/strandline
# `make run` builds it in less time.
QUICK = $(CARGO_TARGET_DIR)/quick/strandline

.PHONY: help run build test test-deps interop interop-deps fuzz fuzz-smoke bench bench-micro bench-instructions bench-instructions-update bench-gateway report report-deps lab-references lab-http lab-gateway sim check fmt doc clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

run: ## build, measure SCTP beside TCP and UDP (two minutes), then a SIP server with phones and its live page (Ctrl-C ends it)
	cargo build --profile quick --locked --package strandline-cli --package strandline-preload
	$(QUICK) demo
	$(QUICK) demo sip

build: ## the program with all its stores, optimised: target/release/strandline, and the library of `strandline run` beside it
	cargo build --release --locked --package strandline-cli --package strandline-preload --features strandline-cli/databases,strandline-cli/png

test: test-deps ## everything quick: unit, component, simulation (1,000 seeds), doc-tests, quick interop, a fuzz smoke run
	RUST_TEST_THREADS=$(TEST_THREADS) cargo test --workspace --locked --no-fail-fast
	$(MAKE) --no-print-directory fuzz-smoke

test-deps: ## what the tests need: Debian packages (only those missing) and the peers of other stacks
	tests/interop/setup quick

interop: interop-deps ## all interop tests, also those with the Linux kernel's SCTP, raw IP and fail-over (root; namespaces of their own)
	tests/interop/run-all

interop-deps:
	tests/interop/setup all

fuzz: ## search for crashes: make fuzz TARGET=packet SECONDS_EACH=600 (TARGET=all: each in turn)
	fuzz/run $(TARGET) $(SECONDS_EACH)

fuzz-smoke: ## each fuzz target that is built without the programs for a few seconds (tests run the others briefly)
	fuzz/run core 8

bench: ## throughput, CPU, latency beside usrsctp, dcsctp, pion, quinn and the kernel (root; an hour; ROW=8k BENCH="--list")
	cargo run --quiet --locked --package strandline-bench -- $(ROW) $(BENCH)

bench-micro: ## the engine alone, without sockets: transfer, SACKs, timing wheel, codec
	cargo bench --locked --package strandline-proto

bench-instructions: test-deps ## instructions of the engine for each packet, message, SACK and set-up, against bench/instructions.toml
	cargo xtask instructions

bench-instructions-update: test-deps ## take what they are now as the figures to hold
	cargo xtask instructions --update

bench-gateway: build ## two gateways, with the bounds that they must keep: bulk data, restarts, real programs, 10,000 connections (root; 20 minutes)
	tests/interop/setup gateway
	bench/gateway/all

report: report-deps build ## papers' experiments, a short set, drawn beside what they published: lab-report/index.html (root; under 15 minutes besides the build)
	$(PROGRAM) lab run --short jani-kant-2005 ono-schulzrinne-2008-sctp ono-schulzrinne-2008-tcp-sip || [ $$? -eq 3 ]
	$(PROGRAM) lab report

report-deps:
	tests/interop/setup report

lab-references: ## HTTP/3 and h2load for the experiments osterdahl-2005/objects and page, with nginx and h2load of Debian
	tests/interop/setup lab
	cargo build --release --locked --manifest-path bench/references/Cargo.toml --target-dir target/bench --package http3-quinn --package h2load-report

lab-http: build lab-references ## the experiments with HTTP (osterdahl-2005), and their report (root; hours; LAB="--short" for less)
	PATH=$$PWD/target/bench/release:$$PATH $(PROGRAM) lab run $(LAB) osterdahl-2005 || [ $$? -eq 3 ]
	$(PROGRAM) lab report osterdahl-2005

lab-gateway: build ## the experiments with the gateway (welzl-2011), and their report (root; hours; LAB="--short" for less)
	tests/interop/setup gateway
	$(PROGRAM) lab run $(LAB) welzl-2011 || [ $$? -eq 3 ]
	$(PROGRAM) lab report --claims welzl-2011

sim: ## search for failures in simulated networks: make sim SEEDS=100000
	cargo run --profile sim --locked --package strandline-sim -- --count $(SEEDS)

check: ## what CI asks for besides the tests: format, lints, docs, style, layers
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	cargo clippy --package strandline-sip --package strandline-lab --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	cargo xtask tidy
	cargo xtask layers

fmt: ## format all code
	cargo fmt --all

doc: ## the reference documentation: target/doc
	cargo doc --workspace --no-deps --locked

clean: ## remove what was built
	cargo clean
