# Adapters of linear layers: what is trained, saved, gone on with, read by other verbs and exported.
source "$(dirname "$0")/common.bash"

for i in $(seq 400); do echo "line $i of a text that repeats itself: $((i * i % 97)) and $((i % 7))"; done >text
model=(--model llama-2x32x2x1 --data text:text --length 16 --batch 4 --threads 1)
run=("$neap" train "${model[@]}" --optimizer adamw --schedule constant)
lora=(--lora 4 --lora-alpha 12 --lora-dropout 0.1)

expect 0 "${run[@]}" --steps 60 --lr 0.01 --out base --json
all=$(field resident_bytes)
base=$(echo base/weights-*)
expect 0 "${run[@]}" "${lora[@]}" --init base --steps 6 --out whole --json
weights=$(field weights_sha256) peak=$(field planned_peak_bytes)
[ "$(field resident_bytes)" -lt "$((all / 2))" ] || fail "adapters leave the states of the rest"
[ "$(stat -c %s whole/weights*)" -lt "$(($(stat -c %s "$base") / 4))" ] || fail "the checkpoint has what is frozen"
same "$("$json_field" settings.lora <whole/state.json)" 4 "the rank that the checkpoint has"
same "$("$json_field" base.sha256 <whole/state.json)" "$(sha256sum <"$base" | cut -d' ' -f1)" "the digest of the base"
grep -q lora_A whole/weights* || fail "the checkpoint has no adapters"
if grep -q '"token.weight"' whole/weights*; then fail "the checkpoint has what is frozen"; fi

# Every budget has the same bits, and so has a run that was stopped.
expect 0 "${run[@]}" "${lora[@]}" --init base --steps 6 --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
[ "$(field planned_peak_bytes)" -lt "$peak" ] || fail "the least budget is no less"
expect 0 "${run[@]}" "${lora[@]}" --init base --steps 3 --out part
grep -q '^adapters  *rank 4, alpha 12, dropout 0.1, added to queries and values$' out err || fail "$(cat out err)"
expect 0 "$neap" train --resume part --steps 6 --json
same "$(field weights_sha256)" "$weights" "the weights of a run that went on"
expect 2 "$neap" train --resume part --steps 7 --lora 5
says lora
expect 0 "$neap" evaluate whole --json
same "$(field weights_sha256)" "$weights" "the weights of the checkpoint"
loss=$(field test_loss)

# Other verbs read base and adapters, which make another text than the base alone.
text=(--prompt "line 7" --tokens 40 --temperature 0 --json)
expect 0 "${run[@]}" "${lora[@]}" --lora-layers all --init base --steps 20 --lr 0.05 --out far
expect 0 "$neap" generate far "${text[@]}"
text_far=$(field text)
expect 0 "$neap" generate base "${text[@]}"
[ "$(field text)" != "$text_far" ] || fail "adapters change no text"
expect 0 "$neap" export whole -o network.onnx --json
same "$(field file)" network.onnx "the ONNX file"
cp -r whole copied && expect 0 "$neap" train --resume copied --steps 8 --keep-best --keep-epochs 1 --json
expect 0 "$neap" evaluate copied --best --json

# A run begins with the adapters of another, and what they are beside.
expect 0 "${run[@]}" "${lora[@]}" --init whole --steps 1 --lr 1e-30 --out again --json
expect 0 "$neap" evaluate again --json
same "$(field test_loss)" "$loss" "the loss of a run that begins with adapters"
same "$("$json_field" base.path <again/state.json)" "$("$json_field" base.path <whole/state.json)" "its base"
expect 2 "${run[@]}" --init whole --steps 1
says "holds adapters or a side net, for a run with the same 'lora' or 'side'"

# As peft has them; and back.
expect 0 "$neap" export whole -o peft --json
same "$(field adapters)" 2 "the layers with an adapter"
same "$("$json_field" peft_type <peft/adapter_config.json)" LORA "the type"
same "$("$json_field" r <peft/adapter_config.json)" 4 "the rank"
same "$("$json_field" lora_alpha <peft/adapter_config.json)" 12 "alpha"
grep -q '"base_model.model.block1.qkv.lora_A.weight"' peft/adapter_model.safetensors || fail "peft's names"
expect 0 "${run[@]}" "${lora[@]}" --init base --lora-init peft --steps 1 --lr 1e-30 --out back
expect 0 "$neap" evaluate back --json
same "$(field test_loss)" "$loss" "the loss of adapters that came from a folder"
expect 2 "${run[@]}" --lora 8 --lora-alpha 12 --lora-init peft --steps 1
says "peft: has adapters of rank 4, but this run has rank 8; give --lora 4"
expect 2 "${run[@]}" --lora 4 --lora-init peft --steps 1
says "give --lora-alpha 12"
expect 2 "${run[@]}" "${lora[@]}" --lora-layers all --lora-init peft --steps 1
says "an adapter of this run; ask for the layers that it has (lora_layers)"
expect 2 "${run[@]}" "${lora[@]}" --lora-layers projection --lora-init peft --steps 1
says "(lora_layers)"

# What is frozen may be in blocks; it is the base's again when it is read.
blocks=(--store '*=q8_0')
expect 0 "${run[@]}" "${lora[@]}" "${blocks[@]}" --init base --steps 4 --out blocks --json
weights=$(field weights_sha256)
[ "$(field stored_saved_bytes)" -gt 0 ] || fail "nothing is in blocks"
expect 0 "${run[@]}" "${lora[@]}" "${blocks[@]}" --init base --steps 2 --out blocks2
expect 0 "$neap" train --resume blocks2 --steps 4 --json
same "$(field weights_sha256)" "$weights" "the weights beside blocks of a run that went on"
expect 0 "$neap" generate blocks --tokens 4 --temperature 0

# The files of a model have what is frozen, wherever they lie.
expect 0 "$neap" export base -o base.onnx
file=("$neap" train --model onnx:base.onnx "${model[@]:2}" --optimizer adamw --lora 4 --lora-layers all)
expect 0 "${file[@]}" --steps 3 --out of_file --json
weights=$(field weights_sha256)
same "$("$json_field" base.sha256 <of_file/state.json)" "$(sha256sum <base.onnx | cut -d' ' -f1)" "the digest of the model"
expect 0 "$neap" evaluate of_file --json
same "$(field weights_sha256)" "$weights" "the weights beside a model that is a file"

# Without a file the base is drawn at random and saved.
expect 0 "${run[@]}" "${lora[@]}" --steps 2 --out drawn
grep -q '"token.weight"' drawn/weights* || fail "the checkpoint lacks what no file has"
expect 0 "$neap" generate drawn --tokens 4

# A base that is touched is read again, one that has changed is refused by name, and so is one that is gone.
touch "$base"
expect 0 "$neap" evaluate whole --json
cp "$base" kept
printf '\x01' | dd of="$base" bs=1 seek=$(($(stat -c %s "$base") - 1)) conv=notrunc status=none
expect 1 "$neap" evaluate whole
says "the weights that whole began with have changed"
rm "$base"
expect 1 "$neap" train --resume part --steps 7
says "part: only holds adapters or a side net, and the weights that they began with cannot be read; put them back"
cp kept "$base"
expect 0 "$neap" evaluate whole

# What is wrong is said, and nothing is trained. Steps are planned with adapters.
expect 2 "${run[@]}" --steps 1 --lora 4 --lora-layers gate_proj
says "no linear layer that 'gate_proj' matches; its first linear weight is 'block1.qkv.weight'"
expect 1 "${run[@]}" --steps 1 --lora 4 --sparse 0.5
says "cannot be combined with sparse parameters"
expect 2 "${run[@]}" --steps 1 --lora-alpha 4
says "--lora-alpha does nothing without --lora"
expect 0 "$neap" plan --model llama-2x32x2x1 --length 16 --batch 4 --lora 4 --lora-layers all --budget max

# The check of what was written computes adapters as the run does.
python3 "$source/tests/cli/small_llama.py" model.gguf >/dev/null
for kind in --dora --rslora; do
  expect 0 "$neap" finetune model.gguf --data text:text --length 16 --batch 4 --steps 6 --lr 0.01 --threads 1 $kind --out "run$kind"
  expect 0 "$neap" export "run$kind" -o "peft$kind"
  grep -q '^checked ' out || fail "the export with $kind is not checked: $(cat out)"
done
