# What the tests of the command share. Each is called with the folder that was built and the folder of the sources, and
# works in a folder of its own that goes away with it.
set -euo pipefail
build=$1 source=$2
neap=$build/neap
json_field=$build/tests/json_field
export OMP_NUM_THREADS=1
folder=$(mktemp -d)
export XDG_CACHE_HOME=$folder/cache
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "FAILED: $*" >&2
  [ ! -s err ] || sed 's/^/  its messages: /' err >&2
  exit 1
}

# expect STATUS COMMAND...: runs it with its output in the files out and err.
expect() {
  local wanted=$1 status=0
  shift
  "$@" >out 2>err || status=$?
  [ "$status" = "$wanted" ] || fail "$* ended with $status, not $wanted"
}

# says TEXT: the last messages contain it.
says() { grep -qF -- "$1" err || fail "the message does not say '$1'"; }

# field NAME: of the JSON object that is all of the last output.
field() { "$json_field" "$1" <out || fail "no $1 in the output"; }

# has NAME...: the JSON object has these fields.
has() {
  local name
  for name; do field "$name" >/dev/null; done
}

same() { [ "$1" = "$2" ] || fail "$3: '$1' is not '$2'"; }

# quiet: the command that failed wrote nothing on standard output.
quiet() { [ ! -s out ] || fail "a failure wrote on standard output"; }

# make_disk: a folder on a real disk in $disk, which goes away, too. Skips the test where the build's folder is in memory.
make_disk() {
  disk=$(mktemp -d "$build/disk-XXXXXX")
  trap 'rm -rf "$folder" "$disk"' EXIT
  if [ "$(stat -f -c %T "$disk")" = tmpfs ]; then
    echo "not run: the build's folder is in memory"
    exit 77
  fi
}

# A network that is trained in no time.
small=(--model wrn-10-1 --batch 8 --threads 1)
train=("$neap" train "${small[@]}" --data synthetic:images=1024 --evaluate off)
# Within the least memory that is found at once, where it does not matter what the least is.
tight=(--budget min --planner evict)

# Options for a planner where it does not matter which: a quick pass takes one that plans at once.
at_once=()
[ -z "${NEAP_QUICK:-}" ] || at_once=(--planner evict)

# expect_same_bits WEIGHTS COMMAND...: a command that trains in micro-batches; four steps of it give these weights within less memory, in
# several processes, in a pipeline and after a resumption in the folder run.
expect_same_bits() {
  local weights=$1
  shift
  expect 0 "$@" --steps 4 "${tight[@]}" --json
  same "$(field weights_sha256)" "$weights" "the weights within the least budget"
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak within the least budget"
  expect 0 "$@" --steps 4 --budget 95% "${at_once[@]}" --json
  same "$(field weights_sha256)" "$weights" "the weights within 95 %"
  expect 0 "$@" --steps 4 --processes 3 --json
  same "$(field weights_sha256)" "$weights" "the weights in three processes"
  expect 0 "$@" --steps 4 --processes 2 --pipeline 2 "${tight[@]}" --json
  same "$(field weights_sha256)" "$weights" "the weights of a pipeline"
  expect 0 "$@" --steps 2 --out run
  expect 0 "$neap" train --resume run --steps 4 --json
  same "$(field weights_sha256)" "$weights" "the weights after a resumption"
}

# unseal RUN: its state.json no longer says which command is its own, as earlier ones did not.
unseal() {
  sed -i 's/"command_sha256": "[0-9a-f]*"/"command_sha256": ""/' "$1/state.json"
  local digest
  digest=$({ "$neap" export "$1" -o unsealed 2>&1 || true; } | sed -n 's/.*its content has the SHA-256 \([0-9a-f]*\), .*/\1/p')
  sed -i "s/\"state_sha256\": \"[0-9a-f]*\"/\"state_sha256\": \"$digest\"/" "$1/state.json"
}

# write_skipping FILE: a step that is no chain. The first of six nodes makes a second value that only the last one reads,
# so that no place between them is crossed by one value alone.
write_skipping() {
  local tensors='{"name": "x", "bytes": 64, "role": "input"}' nodes='' id read
  for id in $(seq 12); do tensors+=", {\"name\": \"t$id\", \"bytes\": 640, \"role\": \"value\"}"; done
  add() { # add PASS INPUTS OUTPUTS
    nodes+="${nodes:+,}{\"name\": \"$1 $3\", \"op\": \"f\", \"pass\": \"$1\", \"cost\": 1, \"workspace\": 0, \"inputs\": [$2],
      \"outputs\": [$3], \"updates\": [], \"inplace\": []}"
  }
  add forward 0 "1, 7"
  for id in 1 2 3 4; do add forward $id $((id + 1)); done
  add forward "5, 7" 6
  read=5
  for id in 8 9 10 11 12; do
    if [ $id = 8 ]; then add backward $read $id; else add backward "$read, $((id - 1))" $id; fi
    read=$((read - 1))
  done
  echo "{\"format\": \"neap-graph\", \"version\": 1, \"name\": \"skipping\", \"tensors\": [$tensors],
    \"nodes\": [$nodes], \"outputs\": [12]}" >"$1"
}

# A language whose words stand one for another.
make_pairs() { # make_pairs SPLIT LINES SEED: lines of 2 to 6 words in data/SPLIT.xx, their translations in data/SPLIT.yy
  awk -v lines="$2" -v state="$3" -v source="data/$1.xx" -v target="data/$1.yy" '
    function draw(n) { state = (state * 16807) % 2147483647; return int(state / 65536) % n }
    BEGIN {
      split("ka lo mi tu re so pa ne di vu", from)
      split("cat dog sun sea man car hat pen box key", to)
      for (i = 0; i < lines; i++) {
        a = b = ""
        for (k = 2 + draw(5); k > 0; k--) {
          w = 1 + draw(10)
          a = a (a == "" ? "" : " ") from[w]
          b = b (b == "" ? "" : " ") to[w]
        }
        print a >source
        print b >target
      }
    }'
}

# write_chain FILE LENGTH: a chain whose values have one size and whose nodes have one cost.
write_chain() {
  local id last=$((2 * $2)) tensors='{"name": "x", "bytes": 64, "role": "input"}' nodes='' inputs pass
  for id in $(seq $last); do
    tensors+=", {\"name\": \"t$id\", \"bytes\": 64000, \"role\": \"value\"}"
    inputs=$((id - 1)) pass=forward
    if [ "$id" -gt "$2" ]; then inputs+=", $((last - id + 1 == id - 1 ? 0 : last - id + 1))" pass=backward; fi
    nodes+="${nodes:+,}{\"name\": \"n$id\", \"op\": \"f\", \"pass\": \"$pass\", \"cost\": 1, \"workspace\": 0,
      \"inputs\": [$inputs], \"outputs\": [$id], \"updates\": [], \"inplace\": []}"
  done
  echo "{\"format\": \"neap-graph\", \"version\": 1, \"name\": \"chain\", \"tensors\": [$tensors],
    \"nodes\": [$nodes], \"outputs\": [$last]}" >"$1"
}
