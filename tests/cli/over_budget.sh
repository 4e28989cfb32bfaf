# A budget that is too small: the smallest one that is named, and each remedy, work.
source "$(dirname "$0")/common.bash"

# Over the budget: both remedies work.
by=(--steps 1 --planner evict)
expect 0 "${train[@]}" "${by[@]}" --budget min --json
over=$(($(field planned_peak_bytes) * 9 / 10))
expect 3 "${train[@]}" "${by[@]}" --budget $over --json
smallest=$(field smallest_budget_bytes) batch=$(field largest_batch)
[ "$smallest" -gt $over ] || fail "the smallest budget, $smallest, is one that was not met"
says "--budget $smallest"
expect 3 "${train[@]}" "${by[@]}" --budget $((smallest - 1))
quiet
expect 0 "${train[@]}" "${by[@]}" --budget "$smallest" --json
expect 3 "${train[@]}" "${by[@]}" --budget 2% --json
[ "$(field budget_bytes)" -gt 0 ] && [ "$(field budget_bytes)" -lt "$(field smallest_budget_bytes)" ] ||
  fail "a share that cannot be met is $(field budget_bytes) bytes"
if [ "$batch" -gt 0 ]; then expect 0 "${train[@]}" "${by[@]}" --budget $over --batch "$batch" --json; fi

# Another algorithm of convolutions is named where it would fit, and where it is that: on processors that have another.
wide=("$neap" train --data synthetic:images=64 --model wrn-16-4 --batch 2 --steps 1 --evaluate off --planner evict)
expect 0 "${wide[@]}" --budget min --json
least=$(field planned_peak_bytes)
expect 0 "${wide[@]}" --budget min --conv direct --json
direct=$(field planned_peak_bytes)
expect 0 "${wide[@]}" --budget "$direct" --conv direct
if [ "$direct" -lt "$least" ]; then
  expect 3 "${wide[@]}" --budget "$direct"
  says "--conv direct would fit"
  quiet
fi
expect 3 "${wide[@]}" --budget 8MB
says "no batch fits it"
if grep -q -- "--conv direct" err; then fail "direct would not fit it either"; fi
