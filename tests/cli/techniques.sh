# Techniques to choose from.
source "$(dirname "$0")/common.bash"

# The first that fits, and in the end the smallest.
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
expect 3 "$neap" plan --model wrn-10-1 --batch 8 --threads 1 --allow bf16 --planner evict --budget 1MB
grep -qF "($least)" out || fail "the smallest budget is not that of the planner: $(cat out)"
expect 2 "$neap" plan --model wrn-10-1 --batch 8 --threads 1 --allow bf16 --planner all
says "--planner all: compares plans of one step"
expect 2 "${train[@]}" --allow micro,f8
says f8
expect 2 "${train[@]}" --allow micro --micro-batch 2
expect 0 "${train[@]}" --steps 1 --allow bf16 --budget min --planner evict
sed '/^memory, planned/q' out | grep -q '^techniques    bf16' || fail "the techniques are not named before the first step"
expect 3 "${train[@]}" --steps 1 --allow micro,bf16 --planner evict --budget 1KiB
says "micro=1+bf16 needs the least memory"
expect 2 "${train[@]}" --steps 1 --micro-batch 3
says "--micro-batch 3: it does not divide the batch of"

# States of 8 bits, but for momentum beside sums of micro-batches, where they take more bytes.
expect 0 "$neap" plan --model lenet --batch 32 --threads 1 --optimizer adamw --allow micro,states8 --budget min --planner evict --json
grep -q '"states8"' out || fail "states of 8 bits are no combination"
grep -q '"micro=1+states8"' out || fail "states of 8 bits beside micro-batches are no combination"
expect 0 "$neap" plan --model lenet --batch 32 --threads 1 --allow micro,states8 --budget min --planner evict --json
grep -q '"states8"' out || fail "momentum of 8 bits is no combination"
! grep -q '+states8"' out || fail "momentum of 8 bits beside micro-batches is a combination"
expect 1 "$neap" plan --model lenet --batch 32 --optimizer adafactor --allow states8 --budget min
says "states"
expect 0 "${train[@]}" --steps 1 --optimizer adamw --allow states8 --budget min --planner evict --json
same "$(field combination)" states8 "the states that are trained with"
