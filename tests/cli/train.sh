# Training: results, budgets, plans that are replayed, metrics, data that is missing.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 3 --budget max --json --save-plan all.json
has model batch parameters steps seconds step_seconds_median loss accuracy test_accuracy planner budget_bytes \
  planned_peak_bytes measured_peak_bytes resident_bytes arena_bytes process_overhead_bytes rss_growth_bytes cost \
  base_cost weights_sha256
weights=$(field weights_sha256) everything=$(field planned_peak_bytes)
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak with max"

# Every budget gives the same bits.
for budget in min 85%; do
  by=()
  [ $budget != min ] || by=(--planner evict)
  expect 0 "${train[@]}" "${by[@]}" --steps 3 --budget $budget --json --save-plan plan-$budget.json
  same "$(field weights_sha256)" "$weights" "weights with $budget"
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak with $budget"
  [ "$(field planned_peak_bytes)" -le "$(field budget_bytes)" ] || fail "$budget: the peak is over the budget"
  [ "$(field planned_peak_bytes)" -lt "$everything" ] || fail "$budget saves nothing"
  # What planning took is no part of it, where the system lets the peak be forgotten. A sanitizer has bytes of its own.
  if [ -z "${NEAP_SANITIZED:-}" ] && echo 5 2>/dev/null >/proc/self/clear_refs; then
    [ "$(field rss_growth_bytes)" -le $(($(field budget_bytes) + $(field process_overhead_bytes))) ] ||
      fail "$budget: the process grew by more than the budget and its overhead"
  fi
done
deep=("${train[@]}" --steps 1 --model preresnet-20 --batch 2 --planner revolve)
expect 0 "${deep[@]}" --budget min --json
affordable=$(field affordable_budget_bytes)
says "--budget $affordable"
expect 0 "${deep[@]}" --budget "$affordable" --json
awk -v cost="$(field cost)" -v base="$(field base_cost)" 'BEGIN { exit !(cost <= 1.5 * base) }' || fail "$affordable costs more"
expect 0 "${train[@]}" --steps 3 --plan plan-min.json --json
same "$(field weights_sha256)" "$weights" "weights with a plan that is replayed"
expect 0 "${train[@]}" --steps 3 --seed 2 --json
[ "$(field weights_sha256)" != "$weights" ] || fail "another seed gives the same weights"
sed -E 's/"offset": *0\b/"offset": 64/' plan-min.json >edited.json
expect 4 "${train[@]}" --steps 3 --plan edited.json
expect 3 "${train[@]}" --steps 3 --plan plan-min.json --budget 64KiB
! grep -q batch err || fail "a saved plan is for one batch, and others were looked for"

# For people: where the bytes go before the first step, and what was saved after the last.
expect 0 "${train[@]}" --steps 3 --budget 85%
for text in "parameters" "arena" "peak" "keeping everything would need" "step 3/3" "saved" "sha256"; do
  grep -qF "$text" out || fail "the output does not have '$text'"
done

grep -qF "epoch's mean loss" out || fail "the progress does not say what its loss is"

# Time to search for the plan changes no bits of the training.
expect 0 "${train[@]}" --steps 3 --budget 85% --time-limit 0.5 --json
same "$(field weights_sha256)" "$weights" "weights with a plan that had its time"

# Metrics: a JSON line a step.
expect 0 "${train[@]}" --steps 3 --metrics m.jsonl --json
same "$(wc -l <m.jsonl)" 3 "metrics lines"
while read -r line; do
  for name in step epoch loss accuracy learning_rate seconds; do
    echo "$line" | "$json_field" $name >/dev/null || fail "metrics without $name"
  done
done <m.jsonl

# A loss that is not finite ends the run, and what is kept is finite.
diverging=("${train[@]}" --lr 1e20 --schedule constant --out diverged)
expect 5 "${diverging[@]}" --steps 50 --checkpoint-every 1 --json
last=$(field steps)
[ "$last" -lt 50 ] || fail "the run went on"
says "not finite"
says "--lr"
kept=$("$json_field" step <diverged/state.json)
says "diverged holds the checkpoint of step $kept"
[ "$kept" -lt "$last" ] || fail "a checkpoint of the step that diverged"
expect 5 "$neap" train --resume diverged
says "diverged holds the checkpoint of step $kept"
expect 5 "${train[@]}" --lr 1e20 --schedule constant --steps 50 --metrics diverged.jsonl --json
same "$(field loss)" null "the loss of a run that diverged"
same "$(tail -1 diverged.jsonl | "$json_field" loss)" null "the last line of its metrics"
says "the loss is not finite"
expect 5 "${train[@]}" --lr 1e20 --schedule constant --steps 50
! grep -q "^result" out || fail "a run that diverged has a result"

# Data and files that are missing.
expect 1 "${train[@]}" --data cifar10:missing --steps 1
says missing
expect 1 "${train[@]}" --steps 1 --init missing.safetensors
says missing.safetensors
expect 1 "${train[@]}" --steps 1 --plan missing.json
says missing.json
expect 1 "${train[@]}" --resume missing --steps 1
says missing
expect 2 "${train[@]}" --data guess --steps 1
says guess
