#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare machine to the comparison table: installs what is missing, builds the programs, and measures two linear
# layers of Llama-3.1-8B on 2 ranks under plain collectives, sliced overlap and CommFuse. No GPU, no options.
#
#   scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

setup build
echo "demo: building the programs in build/host"
build_preset host

mkdir -p results
results=results/demo-$(date +%Y%m%d-%H%M%S)-$$.jsonl
job=(build/host/commfuse-bench --workload "tpsp/gemm_rs,tpsp/ag_gemm" --impl "plain,sliced:n=4,commfuse"
  --model llama3-8b --tokens 512 --time-limit 18 --out "$results")
if (($(nproc) >= 2)); then
  job+=(--transport paced --link auto:0.4)
else
  echo "demo: this machine has one core, where two ranks take turns and no time says anything about overlap;"
  echo "demo: so the schedules run over MPI and only their results are checked. Times need two cores."
  job+=(--transport mpi --check-only)
fi
echo "demo: mpirun -np 2 ${job[*]}"
mpirun -np 2 "${job[@]}"
echo
echo "demo: records (one JSON object per row of the table): $PWD/$results"
echo "demo: more to run: build/host/commfuse-bench --help, docs/recipes.md"
