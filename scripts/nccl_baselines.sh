#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NCCL at its best against CommFuse: plain collectives in each way that NCCL knows, with NVLS off and on and
# CUDA_DEVICE_MAX_CONNECTIONS 1 and 32, which are read once per process and therefore need launches of their own.
#
#   scripts/nccl_baselines.sh [--bench PROGRAM] [--ranks N] [--out FOLDER] [-- OPTION...]
#
# One node, Open MPI's mpirun. --ranks: 8. --out: nccl_baselines, a folder that has no records yet; each launch writes nvls=N,connections=M.jsonl there,
# and then one table is printed of all of them. OPTION...: what the program is to measure, in place of
# `--dtype bf16 --workload tpsp/* --model llama3-8b --tokens 8K`. Exit code: 0, 1 a launch failed (the table is of the others),
# 5 nothing was measured, 6 usage, 7 a result was wrong.
set -uo pipefail

usage() { echo "nccl_baselines: $1" >&2; exit 6; }

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 6
bench=$scripts/../build/cuda/commfuse-bench
ranks=8
folder=nccl_baselines
measured=(--dtype bf16 --workload 'tpsp/*' --model llama3-8b --tokens 8K)
while (($#)); do
  case $1 in
    --bench | --ranks | --out)
      (($# >= 2)) || usage "$1 takes a value"
      case $1 in
        --bench) bench=$2 ;;
        --ranks) ranks=$2 ;;
        --out) folder=$2 ;;
      esac
      shift 2 ;;
    --help | -h) sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --) shift; (($#)) && measured=("$@"); break ;;
    *) usage "unknown argument '$1'; usage: nccl_baselines.sh [--bench PROGRAM] [--ranks N] [--out FOLDER] [-- OPTION...]" ;;
  esac
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || usage "--ranks takes a whole number from 1 on, got '$ranks'"
for option in "${measured[@]}"; do
  case ${option%%=*} in
    --backend | --transport | --impl | --out | --threads | --ranks | --resume | --dry-run | --list | --explain | --selftest | --check-only)
      usage "$option is not to be given: the launches differ in what they set, and all measure plain and commfuse over NCCL" ;;
  esac
done
[[ -x $bench ]] || usage "there is no program $bench; --bench names one"
mkdir -p "$folder" || exit 6
compgen -G "$folder/*.jsonl" >/dev/null && usage "$folder has records already; --out names another folder"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
impls=plain,plain:collective=registered,plain:collective=symmetric,plain:collective=copy_engine,commfuse
failed=0
for nvls in 0 1; do
  for connections in 1 32; do
    file="$folder/nvls=$nvls,connections=$connections.jsonl"
    code=0
    NCCL_NVLS_ENABLE=$nvls CUDA_DEVICE_MAX_CONNECTIONS=$connections \
      mpirun --bind-to none -np "$ranks" -x NCCL_NVLS_ENABLE -x CUDA_DEVICE_MAX_CONNECTIONS \
      "$bench" --backend cuda --transport nccl --impl "$impls" "${measured[@]}" --out "$file" >"${file%.jsonl}.txt" || code=$?
    case $code in
      0 | 7) ;;                                                            # a wrong row stands in the table
      5) [[ -s $file ]] || { echo "nccl_baselines: nothing can run here" >&2; exit 5; } ;;  # all rows are skipped, with reasons
      6) usage "the program refused its options" ;;
      *) echo "nccl_baselines: $(basename "$file" .jsonl) ended with exit code $code" >&2; failed=1 ;;
    esac
  done
done

compgen -G "$folder/*.jsonl" >/dev/null || { echo "nccl_baselines: no launch left a record" >&2; exit $((failed ? 1 : 5)); }
code=0
python3 -B "$scripts/baseline_table.py" "$folder"/*.jsonl || code=$?
((code == 0 && failed)) && code=1
exit $code
