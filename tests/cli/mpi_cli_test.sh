#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpi_cli_test.sh BENCH NAME: runs test_NAME under mpirun.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

test_checks_at_odd_ranks() {
  local ranks
  for ranks in 2 3 5; do
    for transport in paced mpi; do
      run 0 mpirun -np $ranks "$BENCH" --workload '*' --shape "hidden=180,ffn=180,heads=$((ranks * 2))" --tokens $((ranks * 24)) \
        --transport $transport --dtype fp32,bf16 --impl plain,sliced:n=3,bulk,commfuse,commfuse:order=direct --check-only
      out_has "ok exact"
    done
  done
}

test_sub_groups() {
  run 0 mpirun -np 4 "$BENCH" "${SMALL[@]}" --ranks 1,2,4 --check-only --out "$WORK/r.jsonl"
  [[ $(wc -l <"$WORK/r.jsonl") == 15 ]] || fail "expected 15 records"
}

test_mesh() {
  run 0 mpirun -np 4 "$BENCH" "${SMALL[@]}" --mesh tp=2,dp=2 --on both --transport mpi --repetitions 2 --out "$WORK/r.jsonl"
  grep -q '"mesh":"tp=2,dp=2 on tp"' "$WORK/r.jsonl" || fail "no mesh in the record"
  grep -q '"mesh":"tp=2,dp=2 on dp"' "$WORK/r.jsonl" || fail "the second axis is missing"
  [[ $(grep -c '"outcome":"ok"' "$WORK/r.jsonl") == 10 ]] || fail "not every row is ok"
}

test_replay_of_processes() {
  run 0 mpirun -np 8 "$BENCH" "${SMALL[@]}" --replay --impl plain,commfuse --repetitions 2 --out "$WORK/r.jsonl"
  [[ $(grep -c '"ranks":8.*"transport":"put".*"clock":"replayed".*"outcome":"ok"' "$WORK/r.jsonl") == 4 ]] || fail "not every row was replayed"
}

test_errors_once() {
  run 6 mpirun -np 3 "$BENCH" --workload unknown
  out_empty
  [[ $(grep -c 'commfuse-bench: ' "$WORK/err") == 1 ]] || fail "the error is not said once"
}

test_different_options() {
  run 6 mpirun -np 1 "$BENCH" "${SMALL[@]}" --check-only --seed 1 : -np 1 "$BENCH" "${SMALL[@]}" --check-only --seed 2
  err_has "other options than rank 0"
}

# One rank's exit code ends the others; that is no interruption.
test_all_skipped_is_quiet() {
  run 5 mpirun -np 3 "$BENCH" "${SMALL[@]}" --check-only
  ! grep -q interrupted "$WORK/err" || fail "an end was taken for an interruption"
}

test_launcher_mismatch() {
  PMI_SIZE=4 PMI_RANK=0 run 6 "$BENCH" "${SMALL[@]}" --check-only
  err_has "launcher"
}

test_kill_keeps_results() {
  run any mpirun -np 2 "$BENCH" "${SMALL[@]}" --tokens 64,128 --transport mpi --impl plain --repetitions 2 \
    --fault kill:rank=1:group=1 --out "$WORK/r.jsonl"
  [[ $(wc -l <"$WORK/r.jsonl") == 3 ]] || fail "expected the 3 records of the first group"
  err_has "signal 9"
}

test_fail_ends_all() {
  run 1 mpirun -np 2 "$BENCH" "${SMALL[@]}" --tokens 64,128 --transport mpi --impl plain --repetitions 2 \
    --fault fail:rank=1:group=1 --out "$WORK/r.jsonl"
  err_has "rank 1"
  err_has "failing on purpose"
  [[ $(wc -l <"$WORK/r.jsonl") == 3 ]] || fail "expected the 3 records of the first group"
}

# Case D4: one rank's exchanges in reverse order. MPI matches by order, so what arrives is wrong, and said to be.
test_reverse_is_named() {
  run 7 mpirun -np 3 "$BENCH" --shape "hidden=60,ffn=120,heads=6" --tokens 96 --transport mpi --impl commfuse --check-only \
    --fault reverse:rank=1
  out_has "WRONG"
  out_has "rank 0 result["
}

# Case F1: a message that never comes.
test_lost_message_is_named() {
  local transport
  for transport in paced mpi; do
    run 4 mpirun -np 3 "$BENCH" --shape "hidden=60,ffn=120,heads=6" --tokens 96 --transport $transport --impl commfuse \
      --check-only --fault lose:rank=1 --timeout 6
    err_has "phase: MPI > checking"
    err_has "last finished: gemm"
  done
}

test_selftest_of_processes() {
  run 0 mpirun -np 2 "$BENCH" --selftest --transport mpi
  [[ $(grep -c '^selftest: .*, 0 wrong$' "$WORK/out") == 1 ]] || fail "the closing line is not said once"
}

test_interrupt_keeps_results() {
  env --default-signal=INT mpirun -np 2 "$BENCH" "${SMALL[@]}" --tokens 64,128 --transport mpi --impl plain --repetitions 2 \
    --fault hang:rank=1:group=1 \
    --out "$WORK/r.jsonl" >"$WORK/out" 2>"$WORK/err" </dev/null &
  local pid=$! code=0
  wait_for "$WORK/r.jsonl" 3
  kill -INT $pid
  wait $pid || code=$?
  [[ $code != 0 ]] || fail "an interrupted run ended with 0"
  err_has "--resume"
}

"test_$2"
