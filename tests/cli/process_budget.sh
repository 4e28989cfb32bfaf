# A budget for the process.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 3 --json
weights=$(field weights_sha256)

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
