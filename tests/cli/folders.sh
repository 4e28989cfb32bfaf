# The folder of a run: one process at a time has it; what is there gives way only to --force, and only when there is
# something to take its place; it can be gone on with whatever happens.
source "$(dirname "$0")/common.bash"

run=("${train[@]}" --schedule constant)
state() { "$json_field" "$1" <run/state.json; }
resumes() { # resumes WEIGHTS WHAT: what is in the folder is the run that was there
  expect 0 "$neap" train --resume run --evaluate off --json
  same "$(field model) $(field weights_sha256)" "wrn-10-1 $1" "$2"
}

# A second run is refused while one runs, and not after it was killed.
"${run[@]}" --steps 100000 --checkpoint-every 1 --out run >first.out 2>first.err &
running=$!
for _ in $(seq 600); do [ ! -e run/command.json ] || break; sleep 0.1; done
for more in "--out run" "--out run --force" "--resume run"; do
  # shellcheck disable=SC2086
  expect 1 "${run[@]}" --steps 3 $more
  quiet
  says "process $running, which is alive"
done
kill -KILL $running
wait $running || true
[ -e run/lock ] || fail "the killed process has let go, and the test tests nothing"
expect 0 "${run[@]}" --steps 3 --out run --force
[ ! -e run/lock ] || fail "a run that has ended holds its folder"
expect 0 "${run[@]}" --steps 3 --json
weights=$(field weights_sha256)
same "$(state step)" 3 "the step after --force"

# A lock whose process is gone, but which is held all the same, is told from that of a run that lives.
mkdir stale
sleep 0 &
gone=$!
wait $gone
echo $gone >stale/lock
exec 9<stale/lock
flock -n 9 || fail "the lock is held already"
expect 1 "${run[@]}" --steps 1 --out stale
says "locked by process $gone, which does not live"
says "remove stale/lock"
exec 9<&-
expect 0 "${run[@]}" --steps 1 --out stale

# Who reads the progress may go away: the run ends as if nothing had happened.
{
  status=0
  "${run[@]}" --steps 60 --checkpoint-every 1 --out piped 2>&1 || status=$?
  echo $status >status
} | head -n 1 >/dev/null
same "$(cat status)" 0 "a run whose reader went away"
same "$("$json_field" step <piped/state.json)" 60 "the step of a run whose reader went away"
{
  status=0
  "${run[@]}" --steps 3 --out piped --force --json 2>err || status=$?
  echo $status >status
} | true
same "$(cat status)" 1 "a run whose result nobody read"
same "$("$json_field" step <piped/state.json)" 3 "the step of a run whose result nobody read"

# A finished run gives way only to --force.
expect 2 "${run[@]}" --steps 1 --out run
quiet
says "run: holds the checkpoint of a run, at step 3"
says "--force"
resumes "$weights" "a run that was not replaced"

# What does not begin leaves what was there, with its options.
lenet=("$neap" train --model lenet --batch 4 --threads 1 --data synthetic --steps 2 --evaluate off --out run --force)
expect 3 "${lenet[@]}" --budget 1KiB
resumes "$weights" "a run beside one over its budget"
expect 1 "${lenet[@]}" --plan missing.json
resumes "$weights" "a run beside one without its plan"
full() (
  ulimit -f 8 # blocks of 1024 bytes
  exec "$@"
)
expect 1 full "${lenet[@]}"
resumes "$weights" "a run beside one whose disk was full"

# Killed between the state and its command: the digest in the state tells which command goes with it.
mv run/command.json run/command.json.next
sed 's/"--model": "[^"]*"/"--model": "lenet"/' run/command.json.next >run/command.json
resumes "$weights" "a command that has not got its name yet"
sed 's/"--model": "[^"]*"/"--model": "lenet"/' run/command.json >run/command.json.next
resumes "$weights" "a command beside one that was to take its place"

# What a process that lives is writing is not removed; what a dead one has left is.
living=run/weights-1-0123456789ab.safetensors.$$.part dead=run/weights-1-0123456789ab.safetensors.999999999.part
touch "$living" "$dead" run/weights-1-0123456789ab.safetensors.copy
expect 0 "${run[@]}" --steps 2 --out run --force
[ -e "$living" ] || fail "the file of a process that lives is gone"
[ ! -e "$dead" ] || fail "the file of a dead process is left"
[ -e run/weights-1-0123456789ab.safetensors.copy ] || fail "a copy of weights is gone"

# Metrics that are there give way only to --force, or are gone on with.
expect 0 "${run[@]}" --steps 3 --metrics m.jsonl --out measured
cp m.jsonl before.jsonl
expect 2 "${run[@]}" --steps 2 --metrics m.jsonl
says "m.jsonl"
cmp m.jsonl before.jsonl || fail "metrics that are not replaced have changed"
expect 0 "$neap" train --resume measured --steps 4 --evaluate off
same "$(wc -l <m.jsonl)" 4 "lines of a run that goes on"
expect 0 "${run[@]}" --steps 2 --metrics m.jsonl --force
same "$(wc -l <m.jsonl)" 2 "lines that took the place of others"

# A run that cannot begin makes no folder.
expect 3 "${run[@]}" --steps 1 --budget 1KiB --out new
[ ! -e new ] || fail "a folder of nothing"

# A run writes regular files of its folder alone: no link leads it elsewhere, and no pipe is waited for.
echo mine >mine
for name in lock state.json command.json.next digests.jsonl weights-9-a.safetensors; do
  mkdir linked
  ln -s "$PWD/mine" "linked/$name"
  expect 1 "${train[@]}" --steps 1 --out linked
  says "linked/$name: is a symbolic link"
  rm -r linked
  mkdir linked
  mkfifo "linked/$name"
  expect 1 "${train[@]}" --steps 1 --out linked
  says "linked/$name: is not a regular file"
  rm -r linked
done
mkdir linked
ln -s "$PWD" linked/step-1
expect 1 "${train[@]}" --steps 1 --out linked --keep-checkpoints 2
says "linked/step-1: is a symbolic link"
same "$(cat mine)" mine "a file outside of the folder"
mkdir waiting
mkfifo waiting/state.json
expect 1 timeout 20 "$neap" predict waiting --data synthetic -o p.npy
says "waiting/state.json"

# A command is believed if it is the checkpoint's. What it writes is in the folder, or what a run wrote, or is given again.
expect 0 "${train[@]}" --steps 1 --schedule constant --out own --metrics own.jsonl
cp own.jsonl steps.jsonl
for case in 'cp mine own.jsonl' 'ln -sf steps.jsonl own.jsonl' 'rm own.jsonl' 'mkfifo own.jsonl'; do
  $case
  expect 1 timeout 20 "$neap" train --resume own --steps 2
  says "own/command.json: --metrics: "
  says "is not what a run wrote; give it again"
  expect 1 timeout 20 "$neap" finetune --resume own --steps 2
  says "own/command.json: --metrics: "
done
rm own.jsonl
same "$(cat mine)" mine "a file that the command named"
same "$(wc -l <steps.jsonl)" 1 "lines of a file behind a link"
cp steps.jsonl own.jsonl
expect 0 "$neap" train --resume own --steps 2
same "$(wc -l <own.jsonl)" 2 "lines of the metrics"
mkdir within
expect 0 "${train[@]}" --steps 1 --schedule constant --out within --metrics within/m.jsonl
rm within/m.jsonl
expect 0 "$neap" train --resume within --steps 2
expect 0 "${train[@]}" --steps 1 --schedule constant --out board --tensorboard events
expect 0 "$neap" train --resume board --steps 2
mv events/* .
expect 1 "$neap" train --resume board --steps 3
says "board/command.json: --tensorboard: "
sed -i 's/constant/cosine/' own/command.json
expect 1 "$neap" train --resume own --steps 3
says "own/command.json: is not the command of this checkpoint"
