# Gradients at a share of the positions: less memory, the same bits at every budget, in several processes, in a pipeline, after a resumption;
# with other techniques; what it is refused with.
source "$(dirname "$0")/common.bash"

seq 2000 >text
gpt=("$neap" train --model gpt-2x32x4 --data text:text --length 32 --batch 6 --micro-batch 2 --threads 1 --evaluate off
  --schedule constant)
expect 0 "${gpt[@]}" --steps 4 --json
exact=$(field weights_sha256) exact_bytes=$(field planned_peak_bytes)
expect 0 "${gpt[@]}" --backprop-share 1 --steps 4 --json
same "$(field weights_sha256)" "$exact" "the weights with all positions"
same "$(field planned_peak_bytes)" "$exact_bytes" "the bytes with all positions"
half=(--backprop-share 0.5)
expect 0 "${gpt[@]}" "${half[@]}" --steps 4 --json
weights=$(field weights_sha256)
[ "$weights" != "$exact" ] || fail "--backprop-share does nothing"
[ "$(field planned_peak_bytes)" -lt "$exact_bytes" ] || fail "it needs $(field planned_peak_bytes) of $exact_bytes bytes"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak"
expect_same_bits "$weights" "${gpt[@]}" "${half[@]}"
same "$("$json_field" settings.backprop_share <run/state.json)" 0.5 "what the checkpoint has"
mkdir disk
expect 0 "${gpt[@]}" "${half[@]}" --steps 4 --budget 95% --disk disk --disk-for activations,states "${at_once[@]}" --json
same "$(field weights_sha256)" "$weights" "the weights within 95 % and a disk"
expect 2 "$neap" train --resume run --steps 5 --backprop-share 0.25
says "was made with backprop_share 0.5, but this run has 0.25"
expect 0 "$neap" evaluate run --json

# With other techniques every budget gives the same bits.
for with in "--sparse 0.3 --sparse-layers *.hidden.weight --rewire-every 1" "--side 4" "--lora 4 --lora-dropout 0.1 --ema 0.9" \
  "--precision bf16 --master" "--compress 4" "--dropout 0.1 --clip-norm 0.5" "--bits portable"; do
  read -ra options <<<"$with"
  expect 0 "${gpt[@]}" "${half[@]}" --steps 2 "${options[@]}" --json
  weights=$(field weights_sha256)
  expect 0 "${gpt[@]}" "${half[@]}" --steps 2 "${options[@]}" "${tight[@]}" --json
  same "$(field weights_sha256)" "$weights" "the weights with $with within the least budget"
  expect 0 "${gpt[@]}" --steps 2 "${options[@]}" --json
  [ "$(field weights_sha256)" != "$weights" ] || fail "--backprop-share does nothing with $with"
done

# A plan and a curve of it.
plan=("$neap" plan --model gpt-2x64x4 --length 64 --batch 4 --budget max --json)
expect 0 "${plan[@]}"
bytes=$(field peak_bytes)
expect 0 "${plan[@]}" "${half[@]}"
half_bytes=$(field peak_bytes)
expect 0 "${plan[@]}" --backprop-share 0.25
[ "$(field peak_bytes)" -lt "$half_bytes" ] && [ "$half_bytes" -lt "$bytes" ] ||
  fail "keeping all takes $bytes, $half_bytes and $(field peak_bytes) bytes"
expect 0 "$neap" curve --model gpt-1x32x4 --length 16 --batch 2 "${half[@]}" "${at_once[@]}" -o curve.csv
[ -s curve.csv ] || fail "there is no curve"

# What it does not go with is said before the first step.
expect 2 "${gpt[@]}" "${half[@]}" --mezo --steps 1
says "--backprop-share does nothing together with --mezo"
expect 2 "${gpt[@]}" --backprop-share 1.5 --steps 1
says "backprop-share: the share of the positions must be above 0 and at most 1 (got 1.5)"
expect 2 "${gpt[@]}" --backprop-share 0 --steps 1
says "--backprop-share 0: "
expect 1 "${train[@]}" "${half[@]}" --steps 1
says "backprop-share: 'wrn-10-1-b8' must have residual branches over positions, with attention"
