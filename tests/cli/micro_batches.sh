# Micro-batches, and techniques to choose from.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 3 --json
weights=$(field weights_sha256) everything=$(field planned_peak_bytes)

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
