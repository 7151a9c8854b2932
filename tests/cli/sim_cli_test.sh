#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sim_cli_test.sh SIM NAME: runs test_NAME.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

IDEAL=(--machine "ideal:flops=700T,link=400GB/s,latency=3us")
LARGE=(--model llama3-70b --tokens 8K --dtype bf16)

# golden NAME: standard output is that file; COMMFUSE_UPDATE_GOLDEN=1 writes it.
golden() {
  [[ -z ${COMMFUSE_UPDATE_GOLDEN:-} ]] || cp "$WORK/out" "$GOLDEN/$1"
  diff "$GOLDEN/$1" "$WORK/out" >&2 || fail "it differs from tests/golden/$1"
}

test_sim_help() {
  run 0 "$BENCH" --help
  err_empty
  golden sim_help.txt
  [[ $(wc -l <"$WORK/out") -le 60 ]] || fail "the help does not fit on two screens"
  run 0 "$BENCH"
  golden sim_help.txt
  run 0 "$BENCH" --version
  out_has "commfuse-sim "
}

test_sim_list() {
  run 0 "$BENCH" --list
  out_has "ideal:flops="
  out_has "rendezvous"
  out_has "tpsp/gemm_rs"
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 4 --impl plain --list=json
  [[ $(grep -c '"name"' "$WORK/out") == 3 ]] || fail "expected three names"
  out_has "/machine:ideal:flops=700T,link=400GBps,latency=3us/"
}

test_sim_table() {
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --workload tpsp/gemm_rs --ranks 2,8 --impl plain,sliced:n=4,commfuse:order=direct:m=1
  err_empty
  golden sim_table.txt
}

# One node, and eight of them, where the pairwise exchange is as slow as the NICs.
test_sim_machines() {
  run 0 "$BENCH" --machine h100-sxm8 "${LARGE[@]}" --workload tpsp/gemm_rs,tpsp/mlp --ranks 8 --impl plain,sliced:n=8,commfuse
  golden sim_h100.txt
  run 0 "$BENCH" --machine h100-sxm8-400g --shape hidden=8192,ffn=28672,heads=64 --tokens 64K --dtype bf16 --workload ulysses/attention \
    --ranks 8,64 --impl plain,commfuse
  golden sim_nodes.txt
  run 5 "$BENCH" --machine h100-sxm8 "${LARGE[@]}" --ranks 16
  out_has "needs 16 ranks, and h100-sxm8 has 8"
  echo 'base = "a100-sxm8"' >"$WORK/mine.toml"
  run 0 "$BENCH" --machine "$WORK/mine.toml" "${LARGE[@]}" --ranks 2
  echo 'sms = 3' >>"$WORK/mine.toml"
  usage_error "sms must be {" --machine "$WORK/mine.toml"
}

# 2MNK / rate, and P-1 steps of 3 us and a block over 400 GB/s.
test_sim_closed_forms() {
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --workload tpsp/gemm_rs --ranks 2,8 --impl plain,commfuse:order=direct:m=1 \
    --out "$WORK/r.jsonl"
  local found
  found=$(sed -n 's/.*"impl":"\(plain\|commfuse\)[^"]*".*"ranks":\([0-9]*\).*"max_over_ranks":\[\([0-9]*\).*/\1 \2 \3/p' "$WORK/r.jsonl")
  [[ $found == "plain 2 2919551
commfuse 2 2748779
plain 8 1001796
commfuse 8 687195" ]] || fail "found $found"
}

test_sim_many_ranks() {
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 256 --impl commfuse:order=ring:m=1:accumulate=add
  out_has "256 ranks"
}

test_sim_resume() {
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2 --impl plain --out "$WORK/r.jsonl"
  err_has "commfuse-sim: records: "
  [[ $(wc -l <"$WORK/r.jsonl") == 3 ]] || fail "expected three records"
  usage_error "exists" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2,4 --impl plain --out "$WORK/r.jsonl"
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2,4 --impl plain --out "$WORK/r.jsonl" --resume
  err_has "3 cases were finished before"
  [[ $(wc -l <"$WORK/r.jsonl") == 6 ]] || fail "expected six records"
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2,4 --impl plain --out "$WORK/r.jsonl" --resume
  err_has "nothing is left to run"
  out_empty
}

test_sim_prints() {
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 4,3 --dry-run
  out_has "skipped: "
  out_has "MiB"
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2 --impl commfuse --explain
  out_has "rank 1 of 2"
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2 --impl commfuse --explain=dot
  out_has "digraph"
  run 5 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 3 --explain
  err_has "commfuse-sim: "
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2 --benchmark_filter=plain
  out_has "plain"
  ! grep -q "comm_only" "$WORK/out" || fail "a case that the filter leaves out is in the table"
}

test_sim_skips() {
  run 5 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 3
  out_has "skipped"
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --ranks 2,3 --impl plain
  out_has "divisible"
}

test_sim_long_times() {
  run 5 "$BENCH" --machine ideal:flops=0.000001G,link=1KB/s --workload tpsp/gemm_rs --tokens 1M --ranks 2
  out_has "takes longer than simulated time can count"
}

test_sim_usage() {
  usage_error "--machine is missing" --ranks 2
  usage_error "ideal:flops=700T,link=400GB/s,latency=3us" --machine h900
  usage_error "flops" --machine ideal:link=1GB/s
  usage_error "--ranks" "${IDEAL[@]}" --ranks 0
  usage_error "--ranks" "${IDEAL[@]}" --ranks x
  usage_error "put, rendezvous, joint" "${IDEAL[@]}" --protocol unknown
  usage_error "--mesh" "${IDEAL[@]}" --mesh tp=2
  usage_error "tpsp/gemm_rs" "${IDEAL[@]}" --workload tpsp/unknown
  usage_error "matches none" "${IDEAL[@]}" --benchmark_filter=nothing
  usage_error "--help" "${IDEAL[@]}" --threads 2
  usage_error "no-such-folder" "${IDEAL[@]}" --out "$WORK/no-such-folder/r.jsonl"
}

test_sim_tune() {
  run 0 "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --workload tpsp/gemm_rs --ranks 8 --tune
  out_has "ranks: fastest: commfuse:"
  out_has "1.46 x plain, 0.0 % above the bound of 687.2"
  grep -n "ok plan" "$WORK/out" | tail -n 1 | grep -q "accumulate=epilogue" || fail "the slowest is not the last"
  run 0 "$BENCH" --machine ideal:flops=1T,link=400GB/s "${LARGE[@]}" --workload tpsp/gemm_rs --ranks 8 --tune
  out_has "overlap does not pay: plain takes "
  usage_error "leave out --impl" "${IDEAL[@]}" --tune --impl plain
}

# The published end-to-end times of the MLP are met within 3 %, two of them by prediction.
test_sim_paper() {
  command -v python3 >/dev/null || exit 77
  run 0 python3 -B "$(dirname "${BASH_SOURCE[0]}")/../../scripts/paper_table.py" "$BENCH"
  awk '/^MLP/ { mlp = 1 } /^Attention/ { mlp = 0 }
    mlp && /ms/ { sub(/^ *[A-Za-z ]*[a-z] +/, ""); ++rows; if ($5 > 3 || $5 < -3) off = 1 }
    END { exit off || rows != 3 }' "$WORK/out" || fail "the MLP table is not met within 3 %"
  out_has "8 slices"
  run 6 python3 -B "$(dirname "${BASH_SOURCE[0]}")/../../scripts/paper_table.py"
}

# Recorded by commfuse-bench, whose path is in RECORDER.
test_sim_costs() {
  local costs=$WORK/costs.json
  local -a two=("${SMALL[@]}" --workload tpsp/mlp --impl plain,sliced:n=2,commfuse)
  run 0 "$RECORDER" "${two[@]}" --threads 2 --replay --repetitions 3 --record-costs "$costs"
  err_has "costs of "
  run 6 "$RECORDER" "${two[@]}" --threads 2 --replay --record-costs "$costs"
  err_has "exists"
  two+=(--costs "$costs" --ranks 2)
  run 0 "$BENCH" "${two[@]}" --link 2GB/s,20us --out "$WORK/r.jsonl"
  out_has "machine costs:costs,"
  out_has "share of best recorded gemm"
  ! grep -q skipped "$WORK/out" || fail "a row is skipped"
  [[ $(grep -c '"max_over_ranks":\[[1-9]' "$WORK/r.jsonl") == 5 ]] || fail "expected five times above zero"
  run 0 "$BENCH" "${two[@]}" "${IDEAL[@]}"
  out_has "latency=3us,costs:costs"
  run 0 "$BENCH" "${two[@]}" "${IDEAL[@]}" --tokens 256
  out_has "costs.json lacks 3 of 3 ops: gemm 256x128x64 fp32 NT; activation 256x64 fp32 swiglu; gemm 256x64x64 fp32 NT"
  err_has "costs.json lacks "
  run 0 "$BENCH" "${two[@]}" "${IDEAL[@]}" --tokens 256 --dry-run
  out_has "skipped: costs.json lacks 3 of 3 ops"
  run 5 "$BENCH" "${two[@]}" --link auto:0.5 --tokens 256
  usage_error "--link 400GB/s,3us" "${two[@]}"
  mkdir "$WORK/other"
  sed 's/"time": "[^"]*"/"time": "2025-01-02T03:04:05Z"/' "$costs" >"$WORK/other/costs.json"
  usage_error "r.jsonl has cases of costs:costs whose numbers were others than now" "${two[@]}" --costs "$WORK/other/costs.json" \
    --link 2GB/s,20us --out "$WORK/r.jsonl" --resume
  run 0 "$BENCH" "${two[@]}" --link 2GB/s,20us --out "$WORK/r.jsonl" --resume
  err_has "finished before"
  head -c 500 "$costs" >"$WORK/torn.json"
  usage_error "no whole JSON object" --costs "$WORK/torn.json" "${IDEAL[@]}"
  usage_error "No such file" --costs "$WORK/nowhere.json" "${IDEAL[@]}"
}

test_sim_interrupt() {
  # Jobs in the background of a script ignore SIGINT unless told otherwise.
  env --default-signal=INT "$BENCH" "${IDEAL[@]}" "${LARGE[@]}" --workload tpsp/gemm_rs,tpsp/mlp --ranks 2,1024 --out "$WORK/r.jsonl" \
    >"$WORK/out" 2>"$WORK/err" </dev/null &
  local pid=$! code=0
  wait_for "$WORK/r.jsonl" 1
  kill -INT "$pid"
  wait "$pid" || code=$?
  [[ $code == 11 ]] || fail "exit code $code, expected 11"
  err_has "commfuse-sim: interrupted by SIGINT"
}

"test_$2"
