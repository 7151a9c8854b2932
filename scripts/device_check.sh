#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What only a GPU can show, in at most 8 minutes: builds for the device that is here, checks every schedule on it in each
# arrangement of ranks, measures a few, and writes what came of every step as JSON.
#
#   scripts/device_check.sh [--bench PROGRAM] [FILE]
#
# FILE: $OUT/device_check.json if OUT is set, else device_check.json; it is whole after every step. Records of measured
# steps lie beside it. --bench: takes a program (with commfuse_cuda.so beside it) instead of building one. No step stops
# the others. Exit code: 0 all steps are as expected, 5 there is no GPU, 6 usage, 7 some step is not.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 6

source scripts/setup.sh

limit_s=470
bench=build/cuda/commfuse-bench
builds=true
file=${OUT:+$OUT/}device_check.json
while (($#)); do
  case $1 in
    --bench)
      [[ $# -ge 2 && -x $2 ]] || { echo "device_check: --bench takes a program" >&2; exit 6; }
      bench=$2 builds=false
      shift 2 ;;
    -*) echo "usage: scripts/device_check.sh [--bench PROGRAM] [FILE]" >&2; exit 6 ;;
    *) file=$1; shift ;;
  esac
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
folder=$(dirname "$file")
mkdir -p "$folder" || exit 6

# ---- JSON

json_string() {  # standard input as a JSON string; what is no text is left out
  printf '"'
  iconv -f utf-8 -t utf-8 -c | tr -d '\000-\010\013-\037\177' |
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' | awk '{ printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }'
  printf '"'
}

steps=()  # JSON objects
ok=0 failed=0 skipped=0

write_file() {  # DONE
  local separator="" step
  {
    printf '{\n"device_check":1,\n"device":%s,\n"toolkit":%s,\n"commit":%s,\n"steps":[' \
      "$(json_string <<<"$device")" "$(json_string <<<"$toolkit")" "$(json_string <<<"$commit")"
    for step in "${steps[@]}"; do
      printf '%s\n%s' "$separator" "$step"
      separator=,
    done
    printf '],\n"summary":{"complete":%s,"ok":%d,"failed":%d,"skipped":%d,"seconds":%d}\n}\n' "$1" $ok $failed $skipped $SECONDS
  } >"$file.new" && mv "$file.new" "$file"
}

# ---- steps

add_step() {  # NAME VERDICT RC SECONDS COMMAND TAIL
  case $2 in
    ok) ok=$((ok + 1)) ;;
    skipped:*) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
  steps+=("$(printf '{"name":%s,"verdict":%s,"rc":%s,"seconds":%s,"command":%s,"tail":%s}' "$(json_string <<<"$1")" \
    "$(json_string <<<"$2")" "$3" "$4" "$(json_string <<<"$5")" "$(json_string <<<"$6")")")
  last_verdict=$2
  echo "device_check: $1: $2"
  write_file false
}

# step NAME SECONDS CODE PATTERN COMMAND...: within so many seconds, with this exit code, and with a line that matches.
step() {
  local name=$1 timeout_s=$2 want=$3 pattern=$4 rc=0 verdict=ok start=$SECONDS left=$((limit_s - SECONDS))
  shift 4
  if [[ -n $obstacle ]]; then
    add_step "$name" "skipped: $obstacle" null 0 "$*" ""
    return
  fi
  if ((left < 5)); then
    add_step "$name" "failed: the $limit_s seconds were over" null 0 "$*" ""
    return
  fi
  ((timeout_s < left)) || timeout_s=$left
  timeout -k 5 "$timeout_s" "$@" >"$work/output" 2>&1 </dev/null || rc=$?
  if ((rc == 124 || rc == 137)); then
    verdict="failed: not done in $timeout_s s"
  elif ((rc != want)); then
    verdict="failed: exit code $rc, expected $want"
  elif ! grep -Eq -- "$pattern" "$work/output"; then
    verdict="failed: no line matches '$pattern'"
  fi
  add_step "$name" "$verdict" "$rc" $((SECONDS - start)) "$*" "$(tail -c 3000 "$work/output")"
}

skip() {  # NAME REASON
  add_step "$1" "skipped: $2" null 0 "" ""
}

# require_last TEXT: no other step runs where the last one did not end well.
require_last() { [[ -n $obstacle || $last_verdict == ok ]] || obstacle=$1; }

checked='^selftest: [1-9][0-9]* cases ok, .* 0 wrong$'

# selftest NAME SECONDS [VARIABLE=VALUE...] [LAUNCHER...] -- OPTION...
selftest() {
  local name=$1 timeout_s=$2 launcher=()
  shift 2
  while [[ $1 != -- ]]; do launcher+=("$1"); shift; done
  shift
  step "$name" "$timeout_s" 0 "$checked" env "${launcher[@]}" "$bench" --selftest --backend cuda --timeout 45 "$@"
}

# measure NAME OPTION...: a few repetitions; records to a file beside the result.
measure() {
  local name=$1 records
  shift
  records=$folder/${name//[^a-z0-9]/_}.jsonl
  [[ -n $obstacle ]] || rm -f "$records"
  step "$name" 45 0 " ok exact " "$bench" --backend cuda --timeout 30 --repetitions 8 --dtype bf16 --out "$records" "$@"
}

# ---- the machine

device=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null) || device=""
devices=$(grep -c . <<<"$device")
if [[ -n ${CUDA_VISIBLE_DEVICES-} ]]; then  # of those, what this launch sees
  devices=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
fi
toolkit=$("${CUDACXX:-nvcc}" --version 2>/dev/null | tail -n 2 | head -n 1)
commit=$(git rev-parse HEAD 2>/dev/null)
obstacle=""
if [[ -z $device ]]; then
  obstacle="there is no GPU (nvidia-smi shows none)"
fi
ranks_of_mpi=(mpirun --bind-to none -np)

# ---- build and versions

if $builds; then
  capability=$(head -n 1 <<<"$device" | sed 's/.*, *//; s/[.]//')
  step configure 60 0 "CUDA backend  *yes" cmake --preset cuda -DCMAKE_UNITY_BUILD=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability-real"
  require_last "it could not be configured"
  step build 240 0 "" cmake --build --preset cuda
  require_last "it could not be built"  # and what an earlier build left is another program
else
  skip configure "--bench was given"
  skip build "--bench was given"
fi
if [[ -z $obstacle && ! -x $bench ]]; then
  obstacle="there is no $bench"
fi
step version 10 0 "^commfuse-bench " "$bench" --version

# ---- every schedule: ranks as threads of one process, on one card; versions, entry points and NCCL with itself

selftest "nccl of one rank with itself" 60 -- --threads 1 --transport nccl
selftest "threads, 2 ranks, ce" 60 -- --threads 2 --transport ce
selftest "threads, 4 ranks, ce" 60 -- --threads 4 --transport ce
selftest "threads, 8 ranks, ce" 90 -- --threads 8 --transport ce
step "rates of a device" 60 0 "^copies within a device: ok" \
  "$bench" --selftest --backend cuda --threads 1 --timeout 30 --benchmark_filter=tpsp/gemm_rs/impl:plain/model:tiles
step "channel of traced copies" 60 0 "^traced transfers over ce: ok" \
  "$bench" --selftest --backend cuda --threads 2 --transport ce --timeout 30 --benchmark_filter=tpsp/gemm_rs/impl:plain/model:tiles

selftest "replayed graphs, 2 ranks, ce" 60 -- --threads 2 --transport ce --graph

# ---- ranks as processes: IPC, and waits across contexts

selftest "processes, 2 ranks, ce" 60 "${ranks_of_mpi[@]}" 2 -- --transport ce
selftest "processes, 4 ranks, ce" 60 "${ranks_of_mpi[@]}" 4 -- --transport ce

# ---- queues: too few are refused, never a wait for ever

step "1 connection is refused" 30 5 "CUDA_DEVICE_MAX_CONNECTIONS is 1" env CUDA_DEVICE_MAX_CONNECTIONS=1 \
  "$bench" --selftest --backend cuda --threads 2 --transport ce --timeout 20
selftest "8 connections" 60 CUDA_DEVICE_MAX_CONNECTIONS=8 -- --threads 2 --transport ce
selftest "32 connections" 60 CUDA_DEVICE_MAX_CONNECTIONS=32 -- --threads 2 --transport ce

# ---- several devices

if ((devices > 1)) || [[ -n $obstacle ]]; then
  step "rates of links and collectives" 90 0 "^all_gather of nccl: ok, algbw " "${ranks_of_mpi[@]}" "$devices" "$bench" \
    --selftest --backend cuda --transport nccl --timeout 60 --benchmark_filter=tpsp/gemm_rs/impl:plain/model:tiles
  selftest "one rank per device, nccl" 90 "${ranks_of_mpi[@]}" "$devices" -- --transport nccl
  selftest "one rank per device, ce" 90 "${ranks_of_mpi[@]}" "$devices" -- --transport ce
else
  skip "rates of links and collectives" "there is one GPU"
  skip "one rank per device, nccl" "there is one GPU"
  skip "one rank per device, ce" "there is one GPU"
fi

# ---- a few times: gemms over M/P, SMs that gemms leave free, epilogue against a separate add, what tracing costs

measure "gemm over parts" --threads 2 --tokens 2K,8K --time-limit 5 --impl sliced:n=1,sliced:n=2,sliced:n=4,sliced:n=8
measure "gemm with 16 spared sms" --threads 2 --tokens 8K --time-limit 5 --impl sliced:n=4 --spare-sms 16
measure "epilogue and add" --threads 2 --tokens 8K --time-limit 5 \
  --impl commfuse:m=2:accumulate=epilogue,commfuse:m=2:accumulate=add,commfuse:order=direct:accumulate=once
measure "cold cache" --threads 2 --tokens 8K --time-limit 5 --impl plain,commfuse --cache rotate
measure "untraced" --threads 2 --tokens 8K --time-limit 5 --impl commfuse --profiler none

write_file true
echo "device_check: $ok ok, $failed failed, $skipped skipped, in $SECONDS s: $file"
if [[ -z $device ]]; then
  echo "device_check: there is no GPU here" >&2
  exit 5
fi
((failed == 0)) || exit 7
