# Every rule with small states, and states of 8 bits: the same bits at every budget, in several processes and after a
# resumption, and the bytes that were planned; and what they are refused with.
source "$(dirname "$0")/common.bash"

seq 2000 >text
gpt=("$neap" train --model gpt-1x32x4 --data text:text --length 16 --batch 6 --micro-batch 2 --threads 1 --evaluate off --lr 0.01)
narrow=(--projection-rank 4 --projection-every 2)
wide=(--model gpt-1x64x4)
rules=(adafactor muon "fira ${narrow[*]}" "adamw8 ${wide[*]}")
[ -n "${NEAP_QUICK:-}" ] || # a quick pass tries one of each kind
  rules+=(lomo adalomo "apollo ${narrow[*]}" apollo-mini adam-mini "galore ${narrow[*]}" "lion8 ${wide[*]}"
    "sgd ${wide[*]} --states 8bit" "rmsprop ${wide[*]} --momentum 0.9 --states 8bit")
for rule in "${rules[@]}"; do
  read -ra given <<<"--optimizer $rule --schedule constant"
  expect 0 "${gpt[@]}" "${given[@]}" --steps 4 --ema 0.9 --json
  weights=$(field weights_sha256)
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak of $rule"
  expect 0 "${gpt[@]}" "${given[@]}" --steps 4 --ema 0.9 "${tight[@]}" --json
  same "$(field weights_sha256)" "$weights" "the weights of $rule within the least budget"
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak of $rule within the least budget"
  expect 0 "${gpt[@]}" "${given[@]}" --steps 4 --ema 0.9 --processes 3 --json
  same "$(field weights_sha256)" "$weights" "the weights of $rule in three processes"
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak of $rule in three processes"
  expect 0 "${gpt[@]}" "${given[@]}" --steps 2 --ema 0.9 --out "run ${rule%% *}" --force
  expect 0 "$neap" train --resume "run ${rule%% *}" --steps 4 --json
  same "$(field weights_sha256)" "$weights" "the weights of $rule after a resumption"
  expect 0 "${gpt[@]}" "${given[@]}" --micro-batch 6 --steps 2 --clip-norm 0.5 --precision bf16 --json # one micro-batch
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak of $rule in bf16"
done

# Convolutions, whose weights lie row by row then.
for rule in adafactor muon adamw8; do
  expect 0 "${train[@]}" --optimizer "$rule" --steps 2 --json
  weights=$(field weights_sha256)
  expect 0 "${train[@]}" --optimizer "$rule" --steps 2 "${tight[@]}" --json
  same "$(field weights_sha256)" "$weights" "the weights of convolutions by $rule"
done

# States take the bytes that docs/command.md says.
bytes() { # OPTIONS...: resident bytes
  expect 0 "$neap" plan --model mlp-256x256 --image 1x16x16 --classes 8 --batch 2 "$@" --json
  field resident_bytes
}
matrix=$((4 * 256 * 256)) none=$(bytes --optimizer lomo)
[ $(($(bytes --optimizer adamw) - none)) -gt $((4 * matrix)) ] || fail "AdamW has two states"
[ $(($(bytes --optimizer adafactor) - none)) -lt $((matrix / 16)) ] || fail "Adafactor's states are as large as weights"
[ $(($(bytes --optimizer muon) - none)) -gt $((2 * matrix)) ] || fail "Muon has no momentum"
eight=$(($(bytes --optimizer adamw8) - none))
[ "$eight" -gt "$matrix" ] && [ "$eight" -lt $((matrix + matrix / 8)) ] || fail "states of 8 bits take $eight bytes"
[ $(($(bytes --optimizer adamw8 --states-f32 '*') - none)) -gt $((4 * matrix)) ] || fail "--states-f32 leaves none in f32"

# What does not go together is said before the first step.
expect 1 "${gpt[@]}" --optimizer muon --steps 1 --sparse 0.5
says "optimizer muon: it updates whole matrices, which sparse training divides"
expect 1 "${gpt[@]}" --optimizer galore --steps 1 --processes 3 --shard all
says "shard all"
expect 1 "${gpt[@]}" --optimizer adafactor --states 8bit --steps 1
says "states of 8 bits: optimizer adafactor has no state"
expect 1 "${gpt[@]}" --optimizer adamw8 --steps 1 --backend reference
says "no states of 8 bits"
expect 1 "$neap" train --model mlp-8 --data synthetic:images=32 --batch 8 --optimizer apollo --projection-rank 64 --steps 1
says "has no trained matrix of a hidden layer with more than 64 rows and columns; take adamw"
expect 2 "${gpt[@]}" --optimizer muon --projection-rank 4 --steps 1
says "--projection-rank only applies to --optimizer apollo, apollo-mini, galore or fira"
expect 0 "${gpt[@]}" --optimizer muon --steps 1 --out other
expect 2 "$neap" train --resume other --optimizer adamw --steps 2
says "optimizer"
