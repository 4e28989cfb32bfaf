# A disk that is full: a message, exit status 1, nothing half written.
source "$(dirname "$0")/common.bash"

expect 0 "$neap" graph "${small[@]}" -o g.json
limited() (
  ulimit -f 8 # blocks of 1024 bytes
  exec "$@"
)
full() { # full FILE COMMAND...: fails and leaves only what was there
  local file=$1 before
  shift
  before=$(find . ! -name out ! -name err | sort)
  expect 1 limited "$@"
  says "$file"
  same "$(find . ! -name out ! -name err | sort)" "$before" "the folder after $*"
}
full new.json "$neap" graph "${small[@]}" -o new.json
full new.json "$neap" plan g.json -o new.json
full new.svg "$neap" show g.json -o new.svg

# A device or a pipe is written to, not replaced.
mkfifo pipe
cat pipe > through.json &
expect 0 "$neap" graph "${small[@]}" -o pipe
wait
[ -p pipe ] || fail "the pipe is replaced"
cmp -s g.json through.json || fail "what comes through the pipe is not the graph"
mkfifo curve.svg
cat curve.svg > through.svg &
expect 0 "$neap" curve g.json --planner keep-all -o curve.svg
wait
[ -p curve.svg ] || fail "the pipe is replaced"
grep -q '</svg>' through.svg || fail "no picture comes through the pipe"
if [ -c /dev/full ]; then
  expect 1 "$neap" graph "${small[@]}" -o /dev/full
  says /dev/full
  [ -c /dev/full ] || fail "the device is replaced"
fi

# Memory that the process may not have: what was asked for, and the limit. A sanitizer takes what it likes.
if [ -z "${NEAP_SANITIZED:-}" ]; then
  poor() (
    ulimit -v 350000
    exec "$@"
  )
  expect 1 poor "$neap" train --model wrn-28-2 --batch 100 --data synthetic:images=200 --budget max --steps 1 --threads 1
  says "bytes for this session"
  says "ulimit -v 350000"
  quiet
fi

# What was there before stays as it was.
cp g.json kept.json
expect 1 limited "$neap" graph --model wrn-16-1 --batch 4 -o kept.json
cmp -s g.json kept.json || fail "the old file is not what it was"

# A checkpoint that does not fit leaves the one before it.
expect 0 "${train[@]}" --steps 2 --schedule constant --out run --json
weights=$(field weights_sha256)
cp -r run before
expect 1 limited "${train[@]}" --steps 4 --resume run --out run --json
[ -e run/state.json ] && cmp -s run/state.json before/state.json || fail "the checkpoint is not the one from before"
same "$(ls run/*.safetensors)" "$(cd before && ls ./*.safetensors | sed 's#^\.#run#')" "the weights in the checkpoint"

# Metrics that cannot be written any more do not cost what was trained.
if [ -c /dev/full ]; then
  expect 1 "${train[@]}" --steps 3 --schedule constant --metrics /dev/full --out kept
  says "/dev/full: cannot be written"
  says "kept holds a checkpoint of step 1"
  expect 0 "${train[@]}" --steps 3 --schedule constant --metrics m.jsonl --resume kept --json
  weights=$(field weights_sha256)
  expect 0 "${train[@]}" --steps 3 --schedule constant --json
  same "$(field weights_sha256)" "$weights" "the weights after going on"
fi
