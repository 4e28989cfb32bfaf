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

# Where others take the processors, that is said once. Who sets the policy knows.
busy=()
for _ in 1 2 3 4 5 6; do
  while :; do :; done &
  busy+=($!)
done
end_busy() { kill "${busy[@]}" 2>/dev/null || true; }
trap 'end_busy; rm -rf "$folder"' EXIT
sharing=("$neap" train --model wrn-10-1 --batch 8 --threads 2 --data synthetic --evaluate off --steps 1000000 --schedule constant)
env -u OMP_WAIT_POLICY -u OMP_NUM_THREADS "${sharing[@]}" >shared.out 2>shared.err &
running=$!
for _ in $(seq 600); do
  grep -q OMP_WAIT_POLICY=passive shared.err && break
  sleep 0.1
done
kill -INT $running
wait $running || true
OMP_WAIT_POLICY=passive timeout -s INT 6 "${sharing[@]}" >passive.out 2>passive.err || true
end_busy
[ "$(grep -c OMP_WAIT_POLICY=passive shared.err)" = 1 ] || fail "who shares the processors is not told once: $(cat shared.err)"
! grep -q OMP_WAIT_POLICY passive.err || fail "the policy is mentioned although it is set"

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

# Time to search for the plan changes no bits of the training.
expect 0 "${train[@]}" --steps 3 --budget 85% --time-limit 0.5 --json
same "$(field weights_sha256)" "$weights" "weights with a plan that had its time"

# Storage in 16 bits: two thirds of the memory at most, the same bits with every budget, and the plan of "neap plan".
for precision in bf16 f16; do
  expect 0 "${train[@]}" --steps 3 --precision $precision --json
  stored=$(field weights_sha256) most=$(field planned_peak_bytes)
  [ "$stored" != "$weights" ] && same "$(field precision)" $precision "the precision"
  [ $((3 * most)) -lt $((2 * everything)) ] || fail "$precision takes $most of $everything bytes"
  expect 0 "${train[@]}" --steps 3 --precision $precision "${tight[@]}" --json
  same "$(field weights_sha256)" "$stored" "weights in $precision with the least budget"
  expect 0 "${train[@]}" --steps 2 --schedule constant --precision $precision --out $precision-run
  expect 0 "$neap" train --resume $precision-run --steps 3 --json
  resumed=$(field weights_sha256)
  expect 0 "${train[@]}" --steps 3 --schedule constant --precision $precision --json
  same "$(field weights_sha256)" "$resumed" "weights in $precision of a run that is resumed"
done
# Weights in f32 beside values of 16 bits; another loss scale.
expect 0 "${train[@]}" --steps 3 --precision f16 --master --json
[ "$(field weights_sha256)" != "$stored" ] && [ "$(field planned_peak_bytes)" -gt "$most" ] || fail "--master does nothing"
expect 0 "${train[@]}" --steps 3 --precision f16 --loss-scale 2 --json
[ "$(field weights_sha256)" != "$stored" ] || fail "--loss-scale does nothing"
# A loss scale that changes is told with each step; every budget has the same bits.
expect 0 "${train[@]}" --steps 6 --precision f16 --loss-scale dynamic "${tight[@]}" --metrics scales.jsonl --json
scaled=$(field weights_sha256)
expect 0 "${train[@]}" --steps 6 --precision f16 --loss-scale dynamic --json
same "$(field weights_sha256)" "$scaled" "weights with a dynamic loss scale and the least budget"
grep -q '"loss_scale": *[0-9]' scales.jsonl && grep -q '"skipped": *[0-9]' scales.jsonl || fail "no loss scales in the metrics"
expect 2 "${train[@]}" --loss-scale often
expect 2 "${train[@]}" --precision f8
says f32

# Micro-batches: less memory, the same bits with every budget and after a stop; "auto" takes what fits a share of the
# whole batch's memory.
parts=("${train[@]}" --micro-batch 2 --schedule constant)
expect 0 "${parts[@]}" --steps 3 --json
split=$(field weights_sha256) most=$(field planned_peak_bytes)
same "$(field micro_batches)" $(($(field batch) / 2)) "the number of micro-batches"
[ "$most" -lt "$everything" ] || fail "micro-batches take $most of $everything bytes"
expect 0 "${parts[@]}" --steps 3 "${tight[@]}" --json
same "$(field weights_sha256)" "$split" "weights of micro-batches with the least budget"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak of micro-batches"
expect 0 "${parts[@]}" --steps 2 --out parts
expect 0 "$neap" train --resume parts --steps 3 --json
same "$(field weights_sha256)" "$split" "weights of micro-batches of a run that is resumed"
expect 0 "${train[@]}" --steps 1 --micro-batch auto --budget 32% --json
[ "$(field micro_batches)" -gt 1 ] && [ "$(field planned_peak_bytes)" -le $((everything * 32 / 100)) ] ||
  fail "micro-batches that fit: $(field micro_batches) in $(field planned_peak_bytes) of $everything bytes"
# Techniques to choose from: the first that fits, and in the end the smallest.
expect 0 "${train[@]}" --steps 1 --allow micro,f16 --budget max --json
same "$(field combination) $(field density)" "none 1.0" "what is taken where everything fits"
[ "$(field process_peak_bytes)" -ge "$(field measured_peak_bytes)" ] || fail "a process smaller than its session"
expect 0 "${train[@]}" --steps 1 --precision bf16 "${tight[@]}" --json
least=$(field planned_peak_bytes)
expect 0 "${train[@]}" --steps 1 --allow bf16,f16 --planner evict --budget "$least" --json
same "$(field combination)" bf16 "what is taken where f32 does not fit"
expect 0 "${train[@]}" --steps 1 --allow micro,f16 "${tight[@]}" --json
same "$(field combination)" micro=1+f16 "the smallest combination"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak of a combination"
expect 0 "$neap" plan --model wrn-10-1 --batch 8 --threads 1 --allow bf16,f16 --planner evict --budget "$least" --json
has combinations
same "$(field combination)" bf16 "the combination that is planned"
expect 3 "$neap" plan --model wrn-10-1 --batch 8 --threads 1 --allow bf16 --budget 1MB
expect 2 "${train[@]}" --allow micro,f8
says f8
expect 2 "${train[@]}" --allow micro --micro-batch 2
expect 0 "${train[@]}" --steps 1 --allow bf16 --budget min --planner evict
sed '/^memory, planned/q' out | grep -q '^techniques    bf16' || fail "the techniques are not named before the first step"
expect 3 "${train[@]}" --steps 1 --allow micro,bf16 --budget 1KiB
says "micro=1+bf16 needs the least memory"
expect 2 "${train[@]}" --steps 1 --micro-batch 3
says "micro-batches of 3"

# Sparse parameters: less memory, the same bits with every budget and after a stop; dense files in and out.
expect 0 "${train[@]}" --steps 1 --micro-batch 2 --precision f16 "${tight[@]}" --json
most=$(field planned_peak_bytes)
sparse=("${train[@]}" --micro-batch 2 --precision f16 --sparse 0.3 --rewire-every 2)
expect 0 "${sparse[@]}" --steps 12 "${tight[@]}" --json
[ "$(field planned_peak_bytes)" -lt "$most" ] || fail "sparse: $(field planned_peak_bytes) of $most bytes"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak of sparse parameters"
same "$(field combination) $(printf %.3g "$(field density)")" "micro=2+f16+sparse=0.3 0.3" "the techniques that the run reports"
pruned=$(field weights_sha256)
expect 0 "${sparse[@]}" --steps 12 --out sparse-run --json
same "$(field weights_sha256)" "$pruned" "weights of sparse parameters with the least budget"
expect 0 "${sparse[@]}" --steps 12 --rewire-every off --json
[ "$(field weights_sha256)" != "$pruned" ] || fail "--rewire-every off does nothing"
expect 0 "$neap" evaluate sparse-run --json
expect 0 "$neap" predict --model wrn-10-1 --weights sparse-run/weights-*.safetensors --data synthetic -o logits.npy
expect 0 "${sparse[@]}" --steps 1 --init sparse-run/weights-*.safetensors --force --json
start=$(field weights_sha256)
# The same as values and indices.
expect 0 "${sparse[@]}" --steps 12 --out sparse-file --save-sparse --json
same "$(field weights_sha256)" "$pruned" "weights that are saved as values and indices"
[ "$(stat -c %s sparse-file/weights-*)" -lt "$(($(stat -c %s sparse-run/weights-*) * 3 / 4))" ] || fail "--save-sparse saves little"
expect 0 "$neap" train --resume sparse-file --json
same "$(field combination)" micro=2+f16+sparse=0.3 "techniques of a run that goes on"
same "$(field weights_sha256)" "$pruned" "weights of a run that goes on from values and indices"
expect 0 "$neap" evaluate sparse-file --json
expect 0 "${sparse[@]}" --steps 1 --init sparse-file/weights-*.safetensors --json
same "$(field weights_sha256)" "$start" "weights of a run that begins with values and indices"
expect 0 "${train[@]}" --steps 1 --allow micro,sparse=0.3 "${tight[@]}" --json
same "$(field combination)" micro=1+sparse=0.3 "the smallest combination with sparse parameters"
for wrong in "--sparse 0" "--sparse 1" "--sparse-layers x" "--save-sparse" "--sparse 0.3 --save-sparse" "--sparse 0.3 --allow micro" "--allow sparse=2"; do
  # shellcheck disable=SC2086
  expect 2 "${train[@]}" --steps 1 $wrong
done
expect 2 "${train[@]}" --steps 1 --sparse 0.3 --sparse-layers 'none*'
says "none*"

# A budget for the whole process is kept, with the same bits; one that cannot be is told with one that can.
expect 0 "${train[@]}" --steps 3 --json
whole=$(($(field process.peak_bytes) * 5 / 4 + 8000000))
expect 0 "${train[@]}" --steps 3 --process-budget $whole --json
same "$(field weights_sha256)" "$weights" "weights with a budget for the process"
[ "$(field process.peak_bytes)" -le $whole ] || fail "the process took $(field process.peak_bytes) of $whole bytes"
expect 3 "${train[@]}" --steps 1 --planner evict --process-budget 1MB
least=$(sed -n 's/.*the smallest that can: --process-budget \([0-9]*\).*/\1/p' err)
expect 0 "${train[@]}" --steps 3 --planner evict --process-budget $((least * 5 / 4 + 4000000)) --json
same "$(field weights_sha256)" "$weights" "weights with a small budget for the process"
expect 2 "${train[@]}" --steps 1 --process-budget 80MB --budget 1MB
expect 2 "${train[@]}" --steps 1 --process-budget 50%

# The order of the records is part of it: 29 MB here, and none without shuffling. It is known before the first step.
head -c 64000000 /dev/zero >zeros
tokens=("$neap" train --model gpt-1x32x2 --length 4 --batch 8 --data tokens:zeros --steps 1 --evaluate off --threads 1 --json)
expect 0 "${tokens[@]}" --shuffle off
whole=$(($(field process.peak_bytes) * 5 / 4 + 4000000))
expect 0 "${tokens[@]}" --shuffle off --process-budget $whole
expect 3 "${tokens[@]}" --process-budget $whole
! grep -q "in a step" err || fail "the order of records is found after the step"
rm zeros

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
