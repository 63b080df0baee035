#!/usr/bin/env bash
# Writes docs/tour.md: the commands that users need most, with their real output.
# Usage: docs/tour.sh [path of the pilotfish binary]
# Only names of the machine it ran on (folder, host, user) are replaced.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:-target/release/pilotfish}")
page=$PWD/docs/tour.md
work=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
mkdir -p "$work/home" "$work/bin" "$work/sweep"
ln -s "$binary" "$work/bin/pilotfish"
host=$(hostname)
user=$(id -un)
export HOME=$work/home PATH=$work/bin:$PATH LC_ALL=C.UTF-8
unset PILOTFISH_DIR PILOTFISH_LOG
cd "$work/sweep"
exec 3>"$page"

clean() { sed -e "s#$work/sweep#/home/ann/sweep#g; s#$work/home#/home/ann#g; s/\b$host\b/n1/g; s/\b$user\b/ann/g"; }
text() { printf '%s\n\n' "$*" >&3; }
# Shows a command with all it says, and its exit code when that is not 0.
run() {
    local code=0 output
    output=$(bash -c "$1" 2>&1 </dev/null) || code=$?
    {
        printf '```console\n$ %s\n' "$1"
        [ -z "$output" ] || printf '%s\n' "$output" | clean
        [ "$code" = 0 ] || printf '(exit code %s)\n' "$code"
        printf '```\n\n'
    } >&3
}
file() { printf '`%s`:\n\n```yaml\n%s\n```\n\n' "$1" "$(cat "$1")" >&3; }
until_there() { for _ in $(seq 200); do bash -c "$1" >/dev/null 2>&1 && return; sleep 0.05; done; echo "waited in vain: $1" >&2; exit 1; }

text '# A tour of the command line'
text 'The commands that users need most, with their real output; `docs/tour.sh` writes this page. `pilotfish --help` lists all commands, `pilotfish COMMAND --help` explains one. Most that show something have `--json`.'

text '## A job file'
cat >dock.yaml <<'YAML'
name: dock
command: "sleep 0.2; echo affinity -$(({seed} % 7 + 3)).{box}; test {seed} -ne 5"
sweep:
  seed: {range: [1, 20]}
  box: [1, 2]
retries: 1
time_limit: 1m
results: {extract: {affinity: 'affinity (\S+)'}}
YAML
file dock.yaml
text '`check` needs no manager. It shows how many tasks there are and the first ones as they would run.'
run 'pilotfish check dock.yaml --limit 2'
text 'All mistakes are reported at once, each with line, field, what was found and what would be right.'
sed -e 's/{seed} % 7/{sead} % 7/; s/retries: 1/retrys: 1/; s/1m/60/' dock.yaml >wrong.yaml
run 'pilotfish check wrong.yaml'
text 'A billion tasks cost no more than two.'
run 'pilotfish check --array 1-1000000000 --limit 1 -- ./simulate --seed {}'
run 'pilotfish schema job | head -n 6'

text '## Run it here'
text '`run` does everything in one process and one folder, `.pilotfish`. On a terminal it shows a bar.'
run 'pilotfish run dock.yaml'
text 'The same command again goes on with what was left. Failed tasks stay failed unless you add `--retry-failed`. Other commands read the folder afterwards.'
run 'pilotfish run dock.yaml'
run 'pilotfish tasks last --state failed'
text 'Without a file, in the style of GNU parallel:'
run "pilotfish run --dir shorthand -- 'echo {1} and {2}' ::: a b ::: 1 2"
run 'pilotfish logs last --dir shorthand'

text '## A manager that stays'
text '`pilotfish serve &` starts a manager in `~/.pilotfish/default`. The other commands find it.'
# With the records of which manager this folder used: that one is gone.
rm -rf .pilotfish shorthand "$HOME/.pilotfish/.last"
pilotfish serve --cores 2 >"$work/serve.log" 2>&1 &
server=$!
until_there 'pilotfish status'
run 'pilotfish status'
run 'pilotfish submit dock.yaml'
until_there 'pilotfish pilots -q | grep -q .'
run 'pilotfish submit --name long --priority -1 --array 1-1000000 -- sleep 0.3'
until_there 'pilotfish tasks 1 --state done -q | grep -q .'
run 'pilotfish jobs'
run 'pilotfish pilots'
run 'pilotfish platforms'
text '`wait` has an exit code: 0 when all tasks succeeded, 1 when some did not.'
run 'pilotfish wait 1'
run 'pilotfish job 1'
run 'pilotfish tasks 1 --limit 4'
run 'pilotfish task 1.8'
run 'pilotfish logs 1.0'
run 'pilotfish logs 1 --failed'

text '## Why?'
run 'pilotfish explain task 1.8'
run 'pilotfish explain job 2'
run 'pilotfish explain task 2.999999'
run 'pilotfish explain pilot 1'
run 'pilotfish explain platform local'

text '## Change it'
run 'pilotfish retry-failed 1'
run 'pilotfish pause 2'
run 'pilotfish resume 2'
run 'pilotfish cancel 2.10-99'
run 'pilotfish cancel 2'
run 'pilotfish wait 2'

text '## Results'
run 'pilotfish wait 1 --quiet'
run 'pilotfish export 1 | head -n 3'
run 'pilotfish export 1 --format jsonl --state failed'
run 'pilotfish export 1 -o dock.parquet'

text '## For programs'
run 'pilotfish job 1 --json | head -n 17'
run 'pilotfish tasks 1 --failed --quiet'
run 'pilotfish completions bash | head -n 3'

text '## When something is wrong'
run 'pilotfish jbos'
run 'pilotfish task 1.99'
run 'pilotfish wait 2 3'
run 'pilotfish jobs --manager other'

text '## The end'
text 'Ctrl-C or SIGTERM end only the manager: its pilots go on and come back to the next one. `stop` ends them too.'
run 'pilotfish stop'
server=
exec 3>&-
# One empty line at the end is one too many.
sed -i -e '$d' "$page"
