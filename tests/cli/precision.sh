# Values and weights in 16 bits.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 3 --json
weights=$(field weights_sha256) everything=$(field planned_peak_bytes)

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
