#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/device_check.sh where there is no GPU, and on a made-up machine that has one: the verdict of each step, the exit
# code, and JSON that can be read. Exit code 77: no python3 here to read it.
# shellcheck disable=SC2016  # the made-up programs expand arguments of their own
set -u
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$work/out" >&2; exit 1; }

# check CODE [ARGUMENT...]: exit code, and a file that python3 reads.
check() {
  local want=$1 code=0
  shift
  PATH="$work/bin:$PATH" OUT="$work/result" timeout 60 scripts/device_check.sh "$@" >"$work/out" 2>&1 </dev/null || code=$?
  [[ $code == "$want" ]] || fail "exit code $code, expected $want"
}
# verdict STEP: as the file has it.
verdict() {
  python3 -c 'import json, sys
for step in json.load(open(sys.argv[1]))["steps"]:
    if step["name"] == sys.argv[2]: print(step["verdict"])' "$work/result/device_check.json" "$1"
}
# expect STEP PATTERN
# shellcheck disable=SC2053  # a pattern
expect() { [[ $(verdict "$1") == $2 ]] || fail "$1: $(verdict "$1"), expected $2"; }
program() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }

mkdir "$work/bin" || exit 1
program nvidia-smi 'exit 9'
program mpirun 'while [ "$1" != -np ]; do shift; done; shift 2; exec "$@"'

check 5
expect build "skipped: there is no GPU*"
expect "threads, 2 ranks, ce" "skipped: there is no GPU*"
grep -q '"summary":{"complete":true,"ok":0,"failed":0,' "$work/result/device_check.json" || fail "the summary counts what did not run"

# A card, and a program that passes everything but with four threads, where it prints what JSON must escape.
program nvidia-smi 'echo "Made-up GPU, 580.1, 9.0"'
program bench 'case "$* " in
  *--version*) echo "commfuse-bench 0" ;;
  *"--threads 4 "*) printf "a\tquote \" a backslash \\\\ and \001\377\n"; exit 7 ;;
  *--selftest*) [ "$CUDA_DEVICE_MAX_CONNECTIONS" != 1 ] || { echo "CUDA_DEVICE_MAX_CONNECTIONS is 1"; exit 5; }
    echo "copies within a device: ok, fast"; echo "traced transfers over ce: ok, some"; echo "selftest: 9 cases ok, 1 skipped (1: why), 0 wrong" ;;
  *) echo "nothing was measured" ;;
esac'
check 7 --bench "$work/bin/bench"
expect build "skipped: --bench was given"
expect version ok
expect "threads, 2 ranks, ce" ok
expect "threads, 4 ranks, ce" "failed: exit code 7, expected 0"
expect "rates of a device" ok
expect "channel of traced copies" ok
expect "replayed graphs, 2 ranks, ce" ok
expect "processes, 2 ranks, ce" ok
expect "1 connection is refused" ok
expect "8 connections" ok
expect "one rank per device, nccl" "skipped: there is one GPU"
expect "rates of links and collectives" "skipped: there is one GPU"
expect "cold cache" "failed: no line matches*"
expect "epilogue and add" "failed: no line matches*"

# What cannot be built is not replaced by what an earlier build left.
program cmake 'case $1 in --build) exit 1 ;; *) echo "--   CUDA backend   yes" ;; esac'
check 7
expect configure ok
expect build "failed: exit code 1, expected 0"
expect version "skipped: it could not be built"

check 6 --unknown
