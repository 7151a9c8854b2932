#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How far --replay can be trusted: beside the wall clock at 2 ranks, and against the links up to which a ring hides all of
# its communication at 8 ranks. Takes minutes; nothing else should run on the machine.
#
#   scripts/measure_replay.sh [BENCH] [FOLDER]     default build/host/commfuse-bench, and a folder that is removed at the end
#
# LAUNCHES (5) and REPETITIONS (7) in the environment make it longer or shorter. FOLDER must have no records yet. Exit code: 0,
# 1 replay and wall clock are further apart than 0.05 of compute_only, or a launch failed, 6 usage.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { echo "measure_replay: $1" >&2; exit 6; }

bench=${1:-$scripts/../build/host/commfuse-bench}
[[ -x $bench ]] || usage "there is no program $bench"
if (($# > 1)); then
  folder=$2
  mkdir -p "$folder" || exit 6
  compgen -G "$folder/*.jsonl" >/dev/null && usage "$folder has records already"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
launches=${LAUNCHES:-5}
repetitions=${REPETITIONS:-7}
table() { python3 -B "$scripts/replay_table.py" "$@"; }

# run FILE OPTION...
run() {
  local file=$1
  shift
  "$bench" --repetitions "$repetitions" --out "$file.jsonl" "$@" >"$file.txt" 2>"$file.err" || { cat "$file.txt" "$file.err" >&2; exit 1; }
}

beside_the_wall_clock() {
  local launch
  local select=(--threads 2 --workload "tpsp/gemm_rs,tpsp/ag_gemm" --shape "hidden=2048,ffn=4096,heads=16" --tokens 512
    --link auto:0.4 --link auto:0.7 --link auto:1.2)
  for ((launch = 1; launch <= launches; ++launch)); do
    run "$folder/agree-wall-$launch" "${select[@]}"
    run "$folder/agree-replay-$launch" "${select[@]}" --replay
  done
}

# A limit is about the compute in slices, which takes longer than whole: a first launch says by how much.
around_the_limits() {
  local impl ratio ratios link=()
  local select=(--threads 8 --replay --workload tpsp/gemm_rs --shape "hidden=1024,ffn=8192,heads=16" --tokens 2K)
  local epilogue=commfuse:order=ring:m=1:accumulate=epilogue
  local limited=(commfuse:order=ring:{m=2,m=4}:accumulate=epilogue commfuse:order=ring:m=1:accumulate=add)
  run "$folder/slices" "${select[@]}" --link auto:0.5 --impl "$(IFS=,; echo "${limited[*]}")"
  for impl in "${limited[@]}"; do
    ratios=$(table around "$impl" "$folder/slices.jsonl")
    link=()
    for ratio in $ratios; do link+=(--link "auto:$ratio"); done
    run "$folder/limit-$impl" "${select[@]}" --impl "$impl" "${link[@]}"
  done
  run "$folder/limit-$epilogue" "${select[@]}" --impl "plain,$epilogue" --link auto:0.5
}

echo "exposed, as a share of compute_only, medians of $launches launches, 2 ranks: wall clock and replay"
beside_the_wall_clock
agreed=0
table agreement "$folder"/agree-*.jsonl || agreed=$?
echo
echo "exposed at 8 ranks, replayed, around the link up to which a ring hides everything"
around_the_limits
table limits "$folder"/limit-*.jsonl
exit "$agreed"
