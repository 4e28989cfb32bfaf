# Training by forward passes alone: the same bits at every budget, in several processes and after a resumption; no gradient and
# no state in the plan; adapters on weights in blocks and on disk; and what it is refused with.
source "$(dirname "$0")/common.bash"

seq 2000 >text
gpt=("$neap" train --model gpt-1x32x4 --data text:text --length 16 --batch 6 --micro-batch 2 --threads 1 --evaluate off
  --schedule constant)
mezo=(--mezo --mezo-eps 0.01 --lr 0.001)
expect 0 "${gpt[@]}" "${mezo[@]}" --steps 4 --json
weights=$(field weights_sha256)
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak"
expect 0 "${gpt[@]}" "${mezo[@]}" --steps 4 "${tight[@]}" --json
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak within the least budget"
expect 0 "${gpt[@]}" "${mezo[@]}" --steps 4 --budget 90% --json
same "$(field weights_sha256)" "$weights" "the weights within 90 %"
expect 0 "${gpt[@]}" "${mezo[@]}" --steps 4 --processes 3 --json
same "$(field weights_sha256)" "$weights" "the weights in three processes"
expect 0 "${gpt[@]}" "${mezo[@]}" --steps 2 --out run
same "$("$json_field" settings.mezo <run/state.json)" true "what the checkpoint has"
expect 0 "$neap" train --resume run --steps 4 --json
same "$(field weights_sha256)" "$weights" "the weights after a resumption"
expect 2 "$neap" train --resume run --steps 5 --mezo-eps 0.1
says mezo_epsilon
expect 0 "${gpt[@]}" --mezo --steps 1
grep -q '^optimizer  *sgd, learning rate 1e-06 (constant), by forward passes alone (MeZO), weights perturbed by 0.001, weight decay 0$' \
  out err || fail "$(cat out err)"

# The loss of a small batch falls.
loss_after() { # STEPS
  expect 0 "$neap" train --model mlp-32 --image 1x8x8 --classes 3 --data synthetic:images=8 --batch 8 --threads 1 --evaluate off \
    --augment off --schedule constant --mezo --mezo-eps 0.01 --lr 0.01 --steps "$1" --json
  field loss
}
first=$(loss_after 1) last=$(loss_after 300)
[ "$(awk "BEGIN { print $last < 0.8 * $first }")" = 1 ] || fail "the loss goes from $first to $last"

# Neither gradients nor states: a plan beside that of SGD without momentum, and a curve of it.
plan=("$neap" plan --model gpt-2x64x4 --length 64 --batch 4 --json)
expect 0 "${plan[@]}" --momentum 0 --budget max
trained=$(field peak_bytes) resident=$(field resident_bytes)
expect 0 "${plan[@]}" --mezo --budget max
same "$(field resident_bytes)" "$resident" "resident bytes"
[ "$(field peak_bytes)" -lt $((resident + (trained - resident) / 3)) ] || fail "it needs $(field peak_bytes) bytes"
expect 0 "$neap" curve --model gpt-1x32x4 --length 16 --batch 2 --mezo "${at_once[@]}" -o curve.csv
[ -s curve.csv ] || fail "there is no curve"

# Adapters of a model's file: the same bits with weights in the file's types, in memory and on disk.
if command -v python3 >/dev/null; then
  python3 "$source/tests/cli/small_llama.py" small.gguf >/dev/null
  tune=("$neap" finetune small.gguf --data text:text --length 16 --batch 2 --threads 1 --evaluate off --steps 3 "${mezo[@]}")
  expect 0 "${tune[@]}" --base-on-disk never --json
  weights=$(field weights_sha256)
  expect 0 "${tune[@]}" --base-on-disk always --json --out tuned
  same "$(field weights_sha256)" "$weights" "the weights with the base on disk"
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak with the base on disk"
  expect 0 "$neap" export tuned -o adapters --json
  expect 0 "${tune[@]}" --full --json
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak of all weights"
  expect 0 "${tune[@]}" --base q8_0 --json
fi

# What it does not go with is said before the first step.
refused() { # WORDS OPTIONS...
  local words=$1
  shift
  expect 1 "${gpt[@]}" "${mezo[@]}" --steps 1 "$@"
  says "mezo: it does not take $words"
}
expect 1 "${gpt[@]}" "${mezo[@]}" --steps 1 --optimizer adamw
says "mezo: its update is that of sgd (got optimizer adamw)"
refused "lora dropout" --lora 4 --lora-dropout 0.1
refused momentum --momentum 0.9
refused "clip value" --clip-value 1
refused "clip norm" --clip-norm 1
refused "sparse training" --sparse 0.5
refused "loss scale" --loss-scale 8
refused "shard all" --processes 3 --shard all
refused "a pipeline" --processes 2 --pipeline 2
expect 2 "${gpt[@]}" --mezo-eps 0.01 --steps 1
says "--mezo-eps does nothing without --mezo"
expect 2 "$neap" train --model gpt-1x32x4 --data text:text --length 16 --mezo --allow bf16 --steps 1
says "--mezo does nothing together with --allow"
