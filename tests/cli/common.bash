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

# A network that is trained in no time.
small=(--model wrn-10-1 --batch 8 --threads 1)
train=("$neap" train "${small[@]}" --data synthetic --evaluate off)

# write_mesh FILE: a step that is no chain, small enough to read: two values that all later nodes read, so nothing can be
# cut between them.
write_mesh() {
  cat >"$1" <<'MESH'
{"format": "neap-graph", "version": 1, "name": "mesh",
 "tensors": [{"name": "x", "bytes": 64, "role": "input"}, {"name": "a", "bytes": 640, "role": "value"},
             {"name": "b", "bytes": 640, "role": "value"}, {"name": "c", "bytes": 640, "role": "value"},
             {"name": "d", "bytes": 64, "role": "value"}],
 "nodes": [{"name": "a", "op": "f", "pass": "forward", "cost": 1, "inputs": [0], "outputs": [1], "updates": [], "inplace": []},
           {"name": "b", "op": "f", "pass": "forward", "cost": 1, "inputs": [1, 0], "outputs": [2], "updates": [], "inplace": []},
           {"name": "c", "op": "f", "pass": "backward", "cost": 1, "inputs": [1, 2, 0], "outputs": [3], "updates": [], "inplace": []},
           {"name": "d", "op": "f", "pass": "backward", "cost": 1, "inputs": [1, 2, 3], "outputs": [4], "updates": [], "inplace": []}],
 "outputs": [4]}
MESH
}
