#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report_cli_test.sh REPORT NAME: runs test_NAME.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

RECORDS=$GOLDEN/comparison.jsonl

# launches FOLDER FACTOR...: a launch for each factor, with the times of the golden records multiplied by it.
launches() {
  local folder=$1 launch=0 factor
  shift
  mkdir -p "$folder"
  for factor in "$@"; do
    awk -v factor="$factor" 'BEGIN { name = "\"time\":{\"value\":" } {
      at = index($0, name) + length(name)
      rest = substr($0, at)
      match(rest, /^[0-9.]+/)
      print substr($0, 1, at - 1) sprintf("%.3f", rest * factor) substr(rest, RLENGTH + 1)
    }' "$RECORDS" >"$folder/launch-$launch.jsonl"
    launch=$((launch + 1))
  done
}
BEFORE=(1.000 1.001 1.002 1.003 1.004 1.005 1.006)
AFTER=(1.200 1.201 1.202 1.203 1.204 1.205 1.206)

test_report_help() {
  run 0 "$BENCH"
  err_empty
  out_has "table"
  out_has "compare"
  run 0 "$BENCH" --help
  run 0 "$BENCH" compare --help
  out_has "--min-effect"
  run 0 "$BENCH" --version
  out_has "commfuse-report "
}

test_report_usage() {
  usage_error "--nonsense" table --nonsense "$RECORDS"
  usage_error "unknown command 'nonsense'; valid: table, compare" nonsense
  usage_error "a command is missing" --
  usage_error "FILE" table
  usage_error "html" table --format html "$RECORDS"
  usage_error "no-such.jsonl: No such file or directory" table "$WORK/no-such.jsonl"
  usage_error "has no file *.jsonl" compare "$WORK" "$RECORDS"
  usage_error "--alpha" compare --alpha 2 "$RECORDS" "$RECORDS"
  usage_error "as well" table "$RECORDS" "$GOLDEN/../golden/comparison.jsonl"
}

# What no reader of records must take for records: each one line, with file and line.
test_report_bad_files() {
  local file=$WORK/bad.jsonl
  : >"$file"
  usage_error "bad.jsonl; no records" table "$file"
  head -c 300 "$RECORDS" >"$file"
  usage_error "the last line is torn and was left out; no records" table "$file"
  { cat "$RECORDS"; head -n 1 "$RECORDS"; } >"$file"
  usage_error "bad.jsonl: line 7: has the id of line 1 again" table "$file"
  { head -n 1 "$RECORDS"; echo '{"traceEvents":[]}'; } >"$file"
  usage_error "bad.jsonl: line 2" table "$file"
  sed '2s/"schema":1/"schema":99/' "$RECORDS" >"$file"
  usage_error "bad.jsonl: line 2: unknown record schema 99" table "$file"
  head -c 200000000 /dev/zero >"$file"
  usage_error "bad.jsonl: line 1 is not JSON" table "$file"
}

test_report_table() {
  run 0 "$BENCH" table "$RECORDS"
  diff "$GOLDEN/comparison.txt" "$WORK/out" >&2 || fail "it differs from tests/golden/comparison.txt"
  run 0 "$BENCH" table --format markdown "$GOLDEN/sweep.jsonl"
  out_has "| impl | check | time [ms] |"
  out_has "| **1024 tokens** |"
  run 0 "$BENCH" table --format csv "$GOLDEN/record.jsonl"
  out_has "schema,id,workload,impl"
  out_has ",skipped,\"needs rows"
  [[ $(wc -l <"$WORK/out") == $(($(wc -l <"$GOLDEN/record.jsonl") + 1)) ]] || fail "not a line for each record"
  run 1 bash -c '"$@" >/dev/full' _ "$BENCH" table "$RECORDS"
  err_has "standard output could not be written"
}

test_report_compare() {
  launches "$WORK/a" "${BEFORE[@]}"
  launches "$WORK/b" "${AFTER[@]}"
  run 0 "$BENCH" compare "$WORK/a" "$WORK/a"
  out_has "6 rows: 6 SAME"
  run 8 "$BENCH" compare "$WORK/a" "$WORK/b"
  out_has "6 rows: 6 SLOWER"
  run 0 "$BENCH" compare "$WORK/b" "$WORK/a"
  out_has "6 rows: 6 FASTER"
  run 0 "$BENCH" compare "$RECORDS" "$RECORDS"
  out_has "1 and 1 launches, needs 5"
  run 10 "$BENCH" compare --strict "$RECORDS" "$RECORDS"
  run 8 "$BENCH" compare --format json "$WORK/a" "$WORK/b"
  out_has '"verdict": "SLOWER"'
}

test_report_compare_refuses() {
  launches "$WORK/a" "${BEFORE[@]}"
  cp -r "$WORK/a" "$WORK/fewer"
  sed -i '2d' "$WORK"/fewer/*.jsonl
  run 9 "$BENCH" compare "$WORK/a" "$WORK/fewer"
  out_has "removed: "
  run 9 "$BENCH" compare "$WORK/fewer" "$WORK/a"
  out_has "added: "
  run 0 "$BENCH" compare --allow-missing "$WORK/a" "$WORK/fewer"
  cp -r "$WORK/a" "$WORK/elsewhere"
  sed -i -E 's/"environment":\{/"environment":{"driver":"999",/' "$WORK"/elsewhere/*.jsonl
  run 9 "$BENCH" compare "$WORK/a" "$WORK/elsewhere"
  out_has "environment differs in 6 rows: driver: (none), 999"
  run 0 "$BENCH" compare --allow-environment "$WORK/a" "$WORK/elsewhere"
  cp -r "$WORK/a" "$WORK/wrong"
  sed -i '3s/"outcome":"ok"/"outcome":"wrong"/' "$WORK/wrong/launch-2.jsonl"
  run 7 "$BENCH" compare "$WORK/a" "$WORK/wrong"
  out_has "1 WRONG"
}

"test_$2"
