# A budget for the process.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 3 --json
weights=$(field weights_sha256)

# A budget for the whole process is kept, with the same bits.
expect 0 "${train[@]}" --steps 3 --json
whole=$(($(field process.peak_bytes) * 5 / 4 + 8000000))
expect 0 "${train[@]}" --steps 3 --process-budget $whole --json
same "$(field weights_sha256)" "$weights" "weights with a budget for the process"
[ "$(field process.peak_bytes)" -le $whole ] || fail "the process took $(field process.peak_bytes) of $whole bytes"

# The smallest that is named, at whatever budget that cannot be met, is met by the next run, with the same bits.
named() { sed -n 's/.*the smallest that can: --process-budget \([0-9]*\).*/\1/p' err; }
seq -s ' ' 1 6000 >text
belows=(0 1000000 2000000) # bytes less than it; the nearest are met: the smallest has a margin
[ -n "${NEAP_QUICK:-}" ] || belows+=(200000 600000 1400000)
while read -r model; do
  read -ra network <<<"$model"
  small=("$neap" train "${network[@]}" --batch 8 --threads 1 --evaluate off --steps 1 --planner evict)
  expect 0 "${small[@]}" --json
  digest=$(field weights_sha256)
  expect 3 "${small[@]}" --process-budget 1MB
  least=$(named)
  for below in "${belows[@]}"; do
    given=$((least - below)) status=0
    "${small[@]}" --process-budget $given --json >out 2>err || status=$?
    [ $status = 0 ] || [ $below -gt 0 ] || fail "--process-budget $given was named, and is not met"
    if [ $status != 0 ]; then
      same $status 3 "the exit status with a budget of $given"
      given=$(named)
      expect 0 "${small[@]}" --process-budget "$given" --json
    fi
    same "$(field weights_sha256)" "$digest" "weights with a budget of $given for the process"
    [ "$(field process.peak_bytes)" -le "$given" ] || fail "the process took $(field process.peak_bytes) of $given bytes"
  done
done <<'END'
--model wrn-10-1 --data synthetic:images=64
--model gpt-24x32x2 --data text:text --length 16
END
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
