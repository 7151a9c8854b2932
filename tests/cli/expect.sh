# SPDX-License-Identifier: Apache-2.0
# Sourced by the test scripts: run a command, look at exit code, standard output and standard error.
set -u
BENCH=$1
WORK=$(mktemp -d)
leave() {
  local -a left
  mapfile -t left < <(jobs -p)
  ((${#left[@]} == 0)) || kill -KILL "${left[@]}" 2>/dev/null  # a test that failed leaves nothing running beside the next
  rm -rf "$WORK"
}
trap leave EXIT
SMALL=(--shape "hidden=64,ffn=128,heads=8,kv_heads=4" --tokens 64)

fail() {
  echo "FAILED: $*" >&2
  echo "--- standard output" >&2; head -c 4000 "$WORK/out" >&2
  echo "--- standard error" >&2; head -c 4000 "$WORK/err" >&2
  exit 1
}

# run CODE COMMAND...: with this exit code, and within fifteen minutes: more than anything takes under sanitizers on a busy
# machine.
run() {
  local want=$1 code=0
  shift
  timeout 900 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || code=$?
  [[ $want == any || $code == "$want" ]] || fail "exit code $code, expected $want: $*"
}
out_has() { grep -qF -- "$1" "$WORK/out" || fail "standard output lacks: $1"; }
err_has() { grep -qF -- "$1" "$WORK/err" || fail "standard error lacks: $1"; }
out_empty() { [[ ! -s $WORK/out ]] || fail "standard output is not empty"; }
err_empty() { [[ ! -s $WORK/err ]] || fail "standard error is not empty"; }
err_lines() { [[ $(wc -l <"$WORK/err") == "$1" ]] || fail "standard error has not $1 lines"; }

# usage_error TEXT ARGUMENTS...: exit code 6, nothing on standard output, one line with the text on standard error.
usage_error() {
  local text=$1
  shift
  run 6 "$BENCH" "$@"
  out_empty
  err_lines 1
  err_has "$text"
}

# wait_for FILE LINES: until the file has so many lines, as long as `run` would wait.
wait_for() {
  local end=$((SECONDS + 900))
  while ((SECONDS < end)); do
    [[ -f $1 && $(wc -l <"$1") -ge $2 ]] && return
    sleep 0.1
  done
  fail "$1 did not get $2 lines"
}
