#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# simgrid_cli_test.sh COMMFUSE_SIMGRID NAME: runs test_NAME.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

SELECT=(--machine "ideal:flops=700T,link=400GB/s,latency=3us" --workload tpsp/gemm_rs --shape hidden=4096,ffn=16384,heads=32 --tokens 8K
  --impl plain,commfuse)

test_simgrid_compares() {
  run 0 "$BENCH" "${SELECT[@]}" --ranks 2,3,16
  err_empty
  out_has "skipped: needs"
  [[ $(grep -c " 0.0000 %" "$WORK/out") == 8 ]] || fail "the engines differ, or not every case is there"
  run 0 "$BENCH" "${SELECT[@]}" --ranks 16 --fat-tree "2;4,4;1,2;1,2"
  grep "plain" "$WORK/out" | grep -vq " 0.0000 %" || fail "links of a tree are not shared"
  run 5 "$BENCH" "${SELECT[@]}" --ranks 3
}

test_simgrid_usage() {
  run 0 "$BENCH"
  out_has "commfuse-simgrid --machine"
  run 0 "$BENCH" --help
  usage_error "--machine is missing" --ranks 2
  usage_error "4 leaves for 16 ranks" "${SELECT[@]}" --ranks 16 --fat-tree "2;2,2;1,2;1,2"
  usage_error "levels;children;parents" "${SELECT[@]}" --fat-tree x
  usage_error "more than 65536 leaves" "${SELECT[@]}" --fat-tree "2;4000,4000;1,2;1,2"
  usage_error "1000000000 is above 4096" "${SELECT[@]}" --fat-tree "1;8;1;1000000000"
  usage_error "--fat-tree takes a tree" "${SELECT[@]}" --fat-tree ""
  usage_error "invalid down links" "${SELECT[@]}" --ranks 16 --fat-tree "3;4,4;1,2;1,2"
  usage_error "--help" "${SELECT[@]}" --nonsense
}

"test_$2"
