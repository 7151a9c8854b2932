#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What replay_table.py makes of records. Exit code 77: no python3 here.
set -uo pipefail
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; cat "$work/out" >&2; exit 1; }

# record CLOCK IMPL EXPOSED: compute takes 100 whole and 125 in slices, communication 80.
record() {
  printf '{"workload":"tpsp/gemm_rs","link":"auto:0.8","impl":"%s","outcome":"ok","clock":"%s","metrics":{' "$2" "$1"
  printf '"exposed_share":{"value":%s},"r_effective":{"value":0.8},"t_whole":{"value":100},"decomposition":{"value":25}}}\n' "$3"
}
table() { python3 -B scripts/replay_table.py "$@" >"$work/out" 2>&1; }

ring=commfuse:order=ring:m=2:accumulate=epilogue
for share in 0.40 0.50 0.90; do record wall plain "$share"; done >"$work/wall.jsonl"
record replayed plain 0.46 >"$work/near.jsonl"
record replayed plain 0.58 >"$work/far.jsonl"
table agreement "$work/wall.jsonl" "$work/near.jsonl" || fail "0.04 is near enough"
grep -q '^tpsp/gemm_rs *auto:0.8  plain .* 0.500  0.460  0.040$' "$work/out" || fail "no medians"
table agreement "$work/wall.jsonl" "$work/far.jsonl"
[[ $? == 1 ]] || fail "0.08 is too far"
grep -q 'at most 0.080 apart' "$work/out" || fail "not said how far"

# 1 - 2/16 of the compute in slices, which is 1.25 of the whole.
record replayed "$ring" 0.01 >"$work/ring.jsonl"
table around "$ring" "$work/ring.jsonl" || fail "around"
[[ $(cat "$work/out") == "0.9844 1.2031" ]] || fail "other ratios"
record replayed "commfuse:order=ring:m=1:accumulate=epilogue" 0.8 >"$work/one.jsonl"
table limits "$work/ring.jsonl" "$work/one.jsonl" || fail "limits"
grep -q '^commfuse:order=ring:m=2:accumulate=epilogue *0.875 *0.640 *0.73 *1.0$' "$work/out" || fail "no row of the ring"
grep -q '^commfuse:order=ring:m=1:accumulate=epilogue *0.000 *0.640 *- *80.0$' "$work/out" || fail "m=1 has a limit"
table
[[ $? == 6 ]] || fail "no usage error"
