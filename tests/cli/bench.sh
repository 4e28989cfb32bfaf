# What the machine does, and where the time of a step goes; planning then goes by what was measured, and gives the same bits.
source "$(dirname "$0")/common.bash"
model=(--model wrn-10-1 --batch 8 --threads 1)

# A plan that was saved before anything was measured here, and what training by it gives.
expect 0 "$neap" plan "${model[@]}" --budget 80% --json
usual=$(field base_cost)
expect 0 "${train[@]}" --steps 2 --budget 80% --save-plan plan.json --json
digest=$(field weights_sha256)
[ ! -e cache/neap ] || fail "planning has made a cache"

expect 0 "$neap" bench --threads 1 --json
[ -n "$(field processor)" ] || fail "the processor has no name"
grep -q '"threads": 1' out || fail "one thread was not measured"
! grep -q '"threads": 2' out || fail "more threads were measured than were asked for"
! grep -q '"kinds"' out || fail "there are kernels without a model"
[ -s cache/neap/kernels-1.sqlite ] || fail "nothing was kept"

# Costs are of this machine now. Plans may differ, bits do not; the plan of before is still one.
expect 0 "$neap" plan "${model[@]}" --budget 80% --json
[ "$(field base_cost)" != "$usual" ] || fail "costs are as they were before the machine was measured"
expect 0 "${train[@]}" --steps 2 --budget 80% --json
same "$(field weights_sha256)" "$digest" "weights by the plan of another machine"
expect 0 "${train[@]}" --steps 2 --budget 80% --plan plan.json --json
same "$(field weights_sha256)" "$digest" "weights by a plan that was saved before"

# A model.
expect 0 "$neap" bench "${model[@]}" --steps 2 --json
same "$(field model)" wrn-10-1 model
same "$(field batch)" 8 batch
same "$(field precision)" f32 precision
same "$(field steps)" 2 "steps that were timed"
has step_seconds kernel_seconds limit_seconds planned_peak_bytes parameters kinds operators
expect 0 "$neap" bench "${model[@]}" --steps 1 --precision bf16 --optimizer adamw
grep -q "bf16, 1 thread" out || fail "the step is not told of"
grep -q "^AdamW  *[0-9]* " out || fail "the updates are not among the operators"
awk 'length > 80' out >long
[ ! -s long ] || fail "lines are longer than a terminal: $(cat long)"
[ ! -s err ] || fail "it has messages"

# Without a cache it measures all the same.
echo "in the way" >blocked
XDG_CACHE_HOME=$folder/blocked expect 0 "$neap" bench --threads 1
[ ! -s err ] || fail "a cache that cannot be used is worth a message to nobody"
