#!/usr/bin/env bash
# A run with portable bits records digests, and `neap replay` runs its steps again, as another machine would.
. "$(dirname "$0")/common.bash"
run=(train --model wrn-10-1 --data synthetic --batch 8 --steps 25 --bits portable --evaluate off)

expect 0 "$neap" "${run[@]}" --digest-every 5 --keep-checkpoints 2 --checkpoint-every 8 --out run
[ "$(echo run/step-*)" = "run/step-24 run/step-25" ] || fail "not the last two checkpoints are kept: $(echo run/step-*)"
same "$(wc -l <run/digests.jsonl)" 6 "recorded steps: 0, 5, ..., 25"
recorded=$(tail -1 run/digests.jsonl)

# From the beginning, and from a kept checkpoint; with other instructions and threads.
expect 0 env NEAP_MAX_CPU_ISA=generic "$neap" replay run --step 10 --threads 3 --json
same "$(field from_step)" 0 "the first step of a replay from the beginning"
same "$(field compared)" 3 "steps that are compared"
same "$(field equal)" true "whether they are equal"
expect 0 "$neap" replay run --step 25 --json
same "$(field from_step)" 24 "the checkpoint that a replay begins with"

# A kept checkpoint is that of a run: it goes on to the same weights, with other threads too.
expect 0 "$neap" train --resume run/step-24 --threads 1 --json
same "$(tail -1 run/step-24/digests.jsonl)" "$recorded" "digests of a run that went on from a kept checkpoint"

# What was recorded otherwise is named; a replay ends there.
sed '3s/"stage1.block1.conv1.weight": "./&x/; 3s/"stem.conv1.weight": "./&x/' run/digests.jsonl >changed
! cmp -s changed run/digests.jsonl || fail "nothing was changed"
cp changed run/digests.jsonl
expect 1 "$neap" replay run --step 20
grep -qF "differ at step 10, in 2 variables: stem.conv1.weight, stage1.block1.conv1.weight" out ||
  fail "the variables that differ are not named"
expect 1 "$neap" replay run --step 20 --json
same "$(field equal)" false "whether they are equal"
same "$(field differs_at)" 10 "the first step that differs"

# Processes of equal micro-batches and a pipeline record the digests of one process.
seq -s ' ' 1 3000 >text
gpt=(train --model gpt-4x32x2 --data text:text --batch 8 --length 16 --micro-batch 2 --steps 4 --bits portable --evaluate off --digest-every 2)
expect 0 "$neap" "${gpt[@]}" --out one
for more in "--processes 2" "--processes 4" "--processes 2 --pipeline 2"; do
  expect 0 "$neap" "${gpt[@]}" --out several --force $more
  same "$(cat several/digests.jsonl)" "$(cat one/digests.jsonl)" "digests with $more"
done

# A run that is interrupted records the same when it goes on.
expect 0 "$neap" "${run[@]}" --digest-every 5 --out whole
expect 0 "$neap" "${run[@]}" --steps 12 --schedule constant --digest-every 5 --out part
expect 0 "$neap" "${run[@]}" --schedule constant --digest-every 5 --out constant
expect 0 "$neap" train --resume part --steps 25
same "$(sed '$d' part/digests.jsonl | grep -v '"step": 12,')" "$(sed '$d' constant/digests.jsonl)" "digests after a resume"

# A new run in the folder begins its records anew, and removes the checkpoints of the old one.
expect 0 "$neap" "${run[@]}" --steps 2 --out run --force
same "$(wc -l <run/digests.jsonl)" 2 "recorded steps of the new run"
[ ! -e run/step-25 ] || fail "a checkpoint of the run that was replaced is left"
[ -e run/step-24/state.json ] || fail "a run that went on from a kept checkpoint is lost"

# Refusals.
expect 2 "$neap" replay run --step 1
says "steps 0 and 2"
expect 2 "$neap" replay run --step 3
says "steps 1 to 2"
expect 2 "$neap" replay run
says "--step is missing"
expect 0 "$neap" train --model lenet --data synthetic --steps 1 --out usual
expect 2 "$neap" replay usual --step 1
says "recorded no digests"
expect 2 "$neap" train --model lenet --data synthetic --steps 1 --digest-every 2 --out other
says "--digest-every"
expect 2 "$neap" train --model lenet --data synthetic --steps 1 --bits portable --precision bf16
says "portable bits"
