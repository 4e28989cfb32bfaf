# Settings: 0 is another value than none, checkpoints of earlier versions go on, and what does nothing is refused.
source "$(dirname "$0")/common.bash"

digest() { # digest OPTION...: of a run that ends well
  expect 0 "${train[@]}" --steps 3 --json "$@"
  field weights_sha256
}
adam=(--optimizer adam)
usual=$(digest "${adam[@]}")
same "$(digest "${adam[@]}" --beta1 0.9 --beta2 0.999 --epsilon 1e-8 --lr 0.001)" "$usual" "weights with the usual numbers"
for zero in beta1 beta2 lr; do
  [ "$(digest "${adam[@]}" --$zero 0)" != "$usual" ] || fail "--$zero 0 is the usual value"
done
expect 0 "${train[@]}" --steps 1 --lr 0 --metrics m.jsonl
grep -q '"learning_rate": 0.0\b' m.jsonl || fail "--lr 0 trains with another rate"
[ "$(digest --schedule step --step-epochs 0.01 --step-factor 0)" != "$(digest --schedule step --step-epochs 0.01)" ] ||
  fail "--step-factor 0 is the usual value"
expect 2 "${train[@]}" --schedule step --step-epochs 0
says "--step-epochs 0: a number of at least"

# A checkpoint says what was used, and is gone on with by these values alone.
expect 0 "${train[@]}" --steps 2 --schedule constant "${adam[@]}" --beta1 0 --clip-norm 1 --out run
grep -q '"beta1": -0.0' run/state.json || fail "a beta1 of 0 that was given is not in state.json"
grep -q '"beta2": 0.99' run/state.json || fail "the usual beta2 is not in state.json"
cp -r run copy
expect 0 "$neap" train --resume run --epochs 1
expect 2 "$neap" train --resume copy --steps 4 --beta1 0.9
says "was made with beta1 -0.0, but this run has 0.8"
expect 2 "$neap" train --resume copy --steps 4 --clip-norm 0
says "was made with clip_norm 1"

# Before, a 0 was the usual value, and an option that did nothing was taken.
cp -r "$source/tests/cli/earlier-checkpoint" earlier
expect 0 "$neap" train --resume earlier --steps 4 --json
same "$(field steps)" 4 "steps of a run that an earlier version began"
grep -q '"learning_rate": 0.1' earlier/state.json || fail "a rate of 0 is not what it was before"

useless() { # useless NAMED OPTION...
  local named=$1
  shift
  expect 2 "$neap" "$@"
  says "$named"
  quiet
}
text=(train --model gpt-1x8x1 --data synthetic)
image=(train --model wrn-10-1 --data synthetic)
useless "--length does nothing with wrn-10-1" "${image[@]}" --length 8
useless "--dropout does nothing with wrn-10-1" "${image[@]}" --dropout 0.5
useless "--image does nothing with gpt-1x8x1" "${text[@]}" --image 3x8x8
useless "--conv does nothing with gpt-1x8x1" "${text[@]}" --conv direct
useless "--conv does nothing with gpt-1x8x1" plan --model gpt-1x8x1 --conv direct
useless "--master does nothing without --precision bf16 or f16 or --allow" "${image[@]}" --master
useless "--warmup and --warmup-steps: give one of them" "${image[@]}" --warmup 1 --warmup-steps 5
useless "--prefer does nothing without --allow" "${image[@]}" --prefer time
useless "--batch 2147483648: a whole number from 1 to 2147483647" "${image[@]}" --batch 2147483648
useless "--epochs 2147483648: a whole number from 1 to 2147483647" "${image[@]}" --epochs 2147483648
useless "--classes 99999999999" predict --model wrn-10-1 --weights w --data synthetic -o o.npy --classes 99999999999
useless "--points 1001" curve --model wrn-10-1 --points 1001
useless "--beam 257: a whole number from 1 to 256" translate run --beam 257

# What changes a step's memory can be planned.
expect 0 "$neap" plan "${small[@]}" --budget max --json
peak=$(field peak_bytes)
expect 0 "$neap" plan "${small[@]}" --budget max --clip-norm 1 --json
[ "$(field peak_bytes)" -gt "$peak" ] || fail "gradients that live at once take no memory"
