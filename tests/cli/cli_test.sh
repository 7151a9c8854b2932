#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cli_test.sh BENCH NAME: runs test_NAME. No MPI.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

test_help() {
  run 0 "$BENCH" --help
  err_empty
  diff "$GOLDEN/help.txt" "$WORK/out" >&2 || fail "the help changed; look at it and update tests/golden/help.txt"
  cp "$WORK/out" "$WORK/help"
  run 0 "$BENCH"
  cmp -s "$WORK/help" "$WORK/out" || fail "no arguments do not print the help"
  run 0 "$BENCH" --version
  out_has "commfuse-bench "
}

test_list() {
  run 0 "$BENCH" --list
  err_empty
  diff "$GOLDEN/list.txt" "$WORK/out" >&2 || fail "the list changed; look at it and update tests/golden/list.txt"
}

test_list_json() {
  run 0 "$BENCH" "${SMALL[@]}" --impl plain --list=json
  out_has '"benchmarks"'
  [[ $(grep -c '"name"' "$WORK/out") == 3 ]] || fail "expected three names"
  run 0 "$BENCH" "${SMALL[@]}" --impl plain --benchmark_list_tests --benchmark_filter=plain
  [[ $(wc -l <"$WORK/out") == 1 ]] || fail "expected one name"
}

test_dry_run() {
  run 0 "$BENCH" "${SMALL[@]}" --threads 2 --tokens 64,9 --dry-run
  out_has "MiB per rank"
  out_has "skipped: "
}

test_explain() {
  run 0 "$BENCH" "${SMALL[@]}" --threads 2 --impl commfuse --benchmark_filter=commfuse --explain
  out_has "rank 0 of 2"
  out_has "rank 1 of 2"
  out_has "gemm"
  run 0 "$BENCH" "${SMALL[@]}" --threads 2 --impl commfuse --benchmark_filter=commfuse --explain=dot
  out_has "digraph"
  run 5 "$BENCH" "${SMALL[@]}" --threads 2 --tokens 9 --impl commfuse --explain
  err_has "skipped: "
}

test_unknown_names() {
  usage_error "tpsp/gemm_rs" --workload tpsp/unknown
  usage_error "commfuse" --impl unknown
  usage_error "llama3-8b" --model unknown
  usage_error "bf16" --dtype unknown
  usage_error "paced" --transport unknown
  usage_error "isolated" --mode unknown
  usage_error "--help" --unknown
  usage_error "accumulate" --impl commfuse:order=direct:accumulate=epilogue
}

test_bad_numbers() {
  local bad
  for bad in 0 -1 1.5 x "" 99999999999 4G 8:4:*2 8:64:*1; do usage_error "--tokens" --tokens "$bad"; done
  for bad in 0 -1 x 99999999999; do usage_error "--threads" --threads "$bad"; done
  usage_error "hidden" --shape "hidden=-8,ffn=8,heads=1"
  usage_error "hidden" --shape "hidden=99999999999,ffn=8,heads=1"
  usage_error "--link" --link 2GB
  usage_error "needs 8 ranks, started with 2" "${SMALL[@]}" --threads 2 --ranks 8
}

test_existing_file() {
  echo precious >"$WORK/r.jsonl"
  usage_error "exists" "${SMALL[@]}" --check-only --out "$WORK/r.jsonl"
  [[ $(cat "$WORK/r.jsonl") == precious ]] || fail "the file was changed"
  usage_error "exists" "${SMALL[@]}" --check-only --benchmark_out="$WORK/r.jsonl"
  [[ $(cat "$WORK/r.jsonl") == precious ]] || fail "the file was changed"
}

test_unwritable_file() {
  usage_error "no-such-folder" "${SMALL[@]}" --check-only --out "$WORK/no-such-folder/r.jsonl"
  usage_error "no-such-folder" "${SMALL[@]}" --check-only --benchmark_out="$WORK/no-such-folder/r.json"
}

test_filter_without_match() {
  usage_error "matches none" "${SMALL[@]}" --benchmark_filter=nothing-like-this --out "$WORK/r.jsonl" --benchmark_out="$WORK/r.json"
  [[ ! -e $WORK/r.jsonl && ! -e $WORK/r.json ]] || fail "a file was left behind"
  usage_error "regular expression" "${SMALL[@]}" --benchmark_filter='('
}

test_dtypes() {
  run 0 "$BENCH" "${SMALL[@]}" --threads 2 --dtype bf16,fp16 --impl plain --repetitions 2 --out "$WORK/r.jsonl"
  out_has "fp16"
  grep -q '"dtype":"fp16".*"outcome":"ok"' "$WORK/r.jsonl" || fail "no record of fp16"
}

test_too_much_memory() {
  run 5 "$BENCH" --threads 1 --model llama3-405b --workload tpsp/mlp --tokens 16M --check-only
  out_has "needs about"
}

test_constraints() {
  run 5 "$BENCH" --threads 2 --shape "hidden=64,ffn=128,heads=8" --tokens 9 --check-only
  out_has "tokens"
  out_has "divisible by ranks (2), got 9"
  run 5 "$BENCH" --threads 4 --workload tpsp/attention --shape "hidden=56,ffn=64,heads=7" --tokens 64 --check-only
  out_has "got 7"
  # A schedule that does not fit leaves the others.
  run 0 "$BENCH" "${SMALL[@]}" --threads 2 --impl plain,commfuse:m=64 --check-only
  out_has "skipped"
}

test_hang_ends() {
  run 4 "$BENCH" "${SMALL[@]}" --threads 2 --link unlimited --fault hang:rank=1 --timeout 3
  err_has "phase:"
  err_has "rank 0"
}

test_fail_ends() {
  run 1 "$BENCH" "${SMALL[@]}" --threads 2 --link unlimited --fault fail:rank=1
  err_has "rank 1"
  err_has "failing on purpose"
}

test_wrong_start() {
  usage_error "mpirun" "${SMALL[@]}" --transport mpi --check-only
  usage_error "file name" "${SMALL[@]}" --check-only --out ""
  usage_error "same file" "${SMALL[@]}" --out "$WORK/r" --benchmark_out="$WORK/../$(basename "$WORK")/r"
  usage_error "=VALUE" "${SMALL[@]}" --benchmark_format=
  usage_error "exclude each other" --list --dry-run
  usage_error "--worklod tpsp/mlp" --worklod tpsp/mlp
  usage_error "follow a colon" --impl commfuse,m=4
  usage_error "plain number" --link auto:30%
  usage_error "10s" --link 1GB/s,1e10s
  usage_error "1000TB/s" --link 1e300TB/s,1us
  usage_error "over 2000 characters" --benchmark_filter="$(printf '(%.0s' $(seq 3000))"
  PMI_SIZE=2 PMI_RANK=0 run 6 "$BENCH" --threads 2 --check-only
  err_has "not both"
}

# Files that are opened must not become standard output or error, and what cannot be written is an error.
test_streams() {
  (exec "$BENCH" "${SMALL[@]}" --check-only --impl plain --out "$WORK/r.jsonl" <&- >&- 2>&-) || fail "exit code $?"
  [[ $(grep -c '^{"schema":1,.*}$' "$WORK/r.jsonl") == 3 && $(wc -l <"$WORK/r.jsonl") == 3 ]] || fail "the records were mixed up"
  local action
  for action in --check-only --list --help --dry-run; do
    run 1 bash -c '"$@" >/dev/full' _ "$BENCH" "${SMALL[@]}" $action
    err_has "standard output could not be written"
  done
  run 6 bash -c '"$@" 2>/dev/full' _ "$BENCH" --nonsense
  run 0 bash -c '"$@" 2>/dev/full' _ "$BENCH" "${SMALL[@]}" --check-only --out "$WORK/s.jsonl"
  run 1 bash -c 'ulimit -f 1; "$@"' _ "$BENCH" "${SMALL[@]}" --check-only --out "$WORK/t.jsonl"
  err_has "File too large"
  [[ -z $(grep -v '}$' "$WORK/t.jsonl") ]] || fail "a torn record is left"
}

test_interrupt_ends() {
  # Jobs in the background of a script ignore SIGINT unless told otherwise.
  env --default-signal=INT "$BENCH" "${SMALL[@]}" --tokens 64,128 --threads 1 --impl plain --repetitions 2 \
    --fault hang:group=1 --out "$WORK/r.jsonl" --record-costs "$WORK/costs.json" >"$WORK/out" 2>"$WORK/err" </dev/null &
  local pid=$! code=0
  wait_for "$WORK/costs.json" 3
  kill -INT $pid
  wait $pid || code=$?
  [[ $code == 11 ]] || fail "exit code $code, expected 11"
  err_has "--resume"
  [[ $(wc -l <"$WORK/r.jsonl") == 3 ]] || fail "expected the 3 records of a finished group"
  grep -q '"m": 64' "$WORK/costs.json" || fail "the costs of a finished group are lost"
  run 0 "$BENCH" "${SMALL[@]}" --tokens 64,128 --threads 1 --impl plain --repetitions 2 --out "$WORK/r.jsonl" \
    --record-costs "$WORK/costs.json" --resume
  [[ $(wc -l <"$WORK/r.jsonl") == 6 ]] || fail "expected 6 records after resuming"
  grep -q '"m": 64' "$WORK/costs.json" && grep -q '"m": 128' "$WORK/costs.json" || fail "costs are missing after resuming"
}

test_benchmark_out() {
  run 0 "$BENCH" "${SMALL[@]}" --threads 1 --impl plain --repetitions 4 --benchmark_format=json
  out_has '"benchmarks"'
  out_has '/iterations:1/manual_time'
  run 0 "$BENCH" "${SMALL[@]}" --threads 1 --impl plain --repetitions 4 --benchmark_format=csv
  out_has "real_time"
  run 6 "$BENCH" "${SMALL[@]}" --threads 1 --benchmark_format=xml
}

test_selftest() {
  run 0 "$BENCH" --selftest --threads 3 --out "$WORK/r.jsonl"
  out_has "backend host, "
  out_has "tpsp/mlp even 36 tokens fp32, 3 ranks: "
  out_has "tpsp/attention tiles 288 tokens bf16, 3 ranks: "
  out_has "tpsp/qkv odd 15 tokens fp16, 3 ranks: "
  tail -n 1 "$WORK/out" | grep -q '^selftest: [1-9][0-9]* cases ok, [0-9]* skipped.*, 0 wrong$' || fail "no closing line"
  grep -q 'impl:commfuse:order=direct:m=3:accumulate=once/.*"outcome":"ok"' "$WORK/r.jsonl" || fail "a case has no record"
  run 7 "$BENCH" --selftest --threads 2 --benchmark_filter='tpsp/ag_gemm/impl:plain/model:even' --fault corrupt:rank=1:group=0
  out_has "  WRONG tpsp/ag_gemm/impl:plain/model:even/"
  out_has " wrong"
  usage_error "leave out --impl" --selftest --impl plain
}

test_replay() {
  local ranks
  for ranks in 3 5 7 8; do
    run 0 "$BENCH" --replay --threads $ranks --workload tpsp/mlp --shape "hidden=64,ffn=$((ranks * 16)),heads=$ranks,kv_heads=$ranks,head_dim=8" \
      --tokens $((ranks * 8)) --impl plain,commfuse --repetitions 2 --out "$WORK/$ranks.jsonl"
    [[ $(grep -c '"clock":"replayed".*"outcome":"ok"' "$WORK/$ranks.jsonl") == 4 ]] || fail "not every row of $ranks ranks was replayed"
    out_has "clock replayed"
    out_has "contend is 0 by construction"
  done
  run 0 "$BENCH" --replay --threads 8 "${SMALL[@]}" --dry-run
  out_has "8 ranks, replayed"
  out_has "/clock:replayed"
  run 7 "$BENCH" --replay --threads 4 "${SMALL[@]}" --impl plain --fault corrupt:rank=2
  usage_error "leave out --transport" --replay --transport mpi
}

# With too few cores for the wire that is paced in real time, the remedy is named.
test_too_few_cores() {
  run 5 taskset -c 0 "$BENCH" --threads 2 "${SMALL[@]}" --impl plain
  out_has "--replay"
}

test_compare_reads_it() {
  local compare=/usr/share/benchmark/compare.py side
  [[ -f $compare ]] && /usr/bin/python3 -c 'import numpy, scipy' 2>/dev/null || exit 77
  for side in a b; do
    run 0 "$BENCH" "${SMALL[@]}" --threads 1 --impl plain,commfuse --repetitions 9 --benchmark_out="$WORK/$side.json"
  done
  run 0 /usr/bin/python3 "$compare" --no-color benchmarks "$WORK/a.json" "$WORK/b.json"
  out_has "impl:commfuse"
  out_has "OVERALL_GEOMEAN"
  out_has "_pvalue"
}

"test_$2"
