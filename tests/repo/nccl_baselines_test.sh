#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/nccl_baselines.sh without a GPU: the table of record files made by hand, files that are none, and the launches of
# a made-up program. Exit code 77: no python3 here.
# shellcheck disable=SC2016  # the made-up programs expand arguments of their own
set -u
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$work/out" >&2; exit 1; }

# expect CODE COMMAND...
expect() {
  local want=$1 code=0
  shift
  "$@" >"$work/out" 2>&1 </dev/null || code=$?
  [[ $code == "$want" ]] || fail "exit code $code, expected $want: $*"
}
says() { grep -Eq -- "$1" "$work/out" || fail "no line matches '$1'"; }
says_not() { ! grep -Eq -- "$1" "$work/out" || fail "a line matches '$1'"; }
# record IMPL OUTCOME TIME_NS REASON: as the program writes it, with what the table does not read left out.
record() {
  local metrics='{}'
  [[ $2 == ok ]] && metrics="{\"time\":{\"value\":$3,\"unit\":\"ns\"}}"
  printf '{"schema":1,"id":"tpsp/ag_gemm/impl:%s/tokens:8192/ranks:8","impl":"%s","outcome":"%s","reason":"%s","metrics":%s}\n' \
    "$1" "$1" "$2" "$4" "$metrics"
}
table() { python3 -B scripts/baseline_table.py "$@"; }

# Two launches: the best baseline is in one, CommFuse's best row in the other.
off="$work/nvls=0,connections=1.jsonl" on="$work/nvls=1,connections=32.jsonl"
{
  record compute_only ok 1000000 ""
  record plain ok 2000000 ""
  record plain:collective=symmetric ok 1600000 ""
  record commfuse:order=ring:m=1 ok 1200000 ""
} >"$off"
{
  record compute_only ok 1020000 ""
  record plain ok 1900000 ""
  record plain:collective=symmetric skipped 0 "collective=symmetric: NCCL registers no memory here"
  record commfuse:order=ring:m=1 ok 1300000 ""
} >"$on"
expect 0 table "$off" "$on"
says '^tpsp/ag_gemm/tokens:8192/ranks:8$'
says '^row +launch +ms +x best$'
says '^plain:collective=symmetric  nvls=0,connections=1   1\.6000   1\.333$'
says '^plain +nvls=1,connections=32  1\.9000   1\.583$'
says '^plain:collective=symmetric  nvls=1,connections=32 +skipped: collective=symmetric: NCCL registers no memory here$'
says '^best baseline: plain:collective=symmetric with nvls=0,connections=1, 1\.6000 ms$'
says "^CommFuse: commfuse:order=ring:m=1 with nvls=0,connections=1, 1\.2000 ms, 0\.750 of the best baseline's time$"
says '^compute_only differs by 2\.0 % between launches'
says_not '^compute_only +nvls'

# Without a time there is nothing to compare, and a wrong result is not hidden.
{ record plain skipped 0 "NCCL takes one rank per device"; record commfuse skipped 0 "the same"; } >"$work/none.jsonl"
expect 5 table "$work/none.jsonl"
says '^best baseline: none has a time$'
says '^CommFuse: no row has a time$'
{ record plain ok 2000000 ""; record commfuse wrong 0 "3 of 4 values wrong"; } >"$work/wrong.jsonl"
expect 7 table "$work/wrong.jsonl"
says '^commfuse  wrong +WRONG: 3 of 4 values wrong$'

# What is no record file is named, with its line.
{ record plain ok 1 ""; echo '{"impl": "plain"'; } >"$work/cut.jsonl"
expect 6 table "$off" "$work/cut.jsonl"
says 'cut\.jsonl, line 2: no record of commfuse-bench'
echo '{"impl":"plain"}' >"$work/other.jsonl"
expect 6 table "$work/other.jsonl"
says "other\.jsonl, line 1: .*KeyError"
: >"$work/empty.jsonl"
expect 6 table "$work/empty.jsonl"
says 'empty\.jsonl: there are no records'
expect 6 table "$work/missing.jsonl"
says 'missing\.jsonl'
expect 6 table
says 'usage'

# The launches, with a program that writes what it was started with.
mkdir "$work/bin"
program() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
program mpirun 'echo "$NCCL_NVLS_ENABLE $CUDA_DEVICE_MAX_CONNECTIONS $*" >>"$LAUNCHES"
while [ "$1" != -x ]; do shift; done; shift 4; exec "$@"'
program bench '[ "$NCCL_NVLS_ENABLE$CUDA_DEVICE_MAX_CONNECTIONS" != 01 ] || exit ${FIRST:-0}
while [ "$1" != --out ]; do shift; done; cat "$RECORDS" >"$2"; exit ${CODE:-0}'
# launch NAME [VARIABLE=VALUE...]: the script, into a folder of that name.
launch() {
  local name=$1
  shift
  env PATH="$work/bin:$PATH" LAUNCHES="$work/launches" RECORDS="$off" "$@" \
    scripts/nccl_baselines.sh --bench "$work/bin/bench" --ranks 4 --out "$work/$name" -- --workload tpsp/ag_gemm
}
expect 1 launch failing FIRST=3
says 'nvls=0,connections=1 ended with exit code 3'
says '^plain +nvls=1,connections=32 '
says_not '^plain +nvls=0,connections=1 '
[[ $(wc -l <"$work/launches") == 4 ]] || fail "$(wc -l <"$work/launches") launches"
grep -q '^1 32 --bind-to none -np 4 .*--transport nccl --impl plain,.*copy_engine,commfuse --workload tpsp/ag_gemm --out' \
  "$work/launches" || fail "$(cat "$work/launches")"
expect 6 launch failing
says 'has records already'
expect 5 launch without FIRST=5
says 'nothing can run here'
expect 6 scripts/nccl_baselines.sh --bench "$work/bin/none"
says 'there is no program'
expect 6 scripts/nccl_baselines.sh --unknown
