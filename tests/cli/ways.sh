# neap plan of a language model of a file: the ways to fine-tune it, their bytes and seconds, from the file's header alone.
# A run of `neap finetune` within the bytes of the table takes the bytes of the table.
source "$(dirname "$0")/common.bash"

read -r bytes elements < <(python3 "$source/tests/cli/small_llama.py" model.gguf)

# Every verb about steps takes the file as it takes --model.
for verb in "graph -o step.json" "bench --steps 1" show curve; do
  read -ra given <<<"$verb"
  expect 0 "$neap" "${given[0]}" model.gguf --length 16 --batch 1 --threads 1 "${given[@]:1}"
done
for verb in "graph -o step.json" bench; do
  read -ra given <<<"$verb"
  expect 2 "$neap" "${given[@]}" no.json
  says "no.json: is not the file or folder of a model"
  expect 2 "$neap" "${given[@]}" model.gguf --model wrn-10-1
  says "names the model already"
done
for i in $(seq 400); do echo "line $i of a text that repeats itself: $((i * i % 97)) and $((i % 7))"; done >text
shape=(--batch 2 --length 32 --threads 1)
names=(full lora "lora + q8_0" "lora + nf4" "lora on disk" "full + states8" "full, apollo-mini" "lora, mezo" "side net"
  "full on disk" "full on disk + states8" "full on disk, apollo-mini")
all=(0 1 2 3 4 5 6 7 8 9 10 11)

expect 0 "$neap" plan model.gguf "${shape[@]}" --json
cp out ways
has model batch micro_batches length records steps_per_pass budget_bytes take command
same "$(field batch) $(field length) $(field records) $(field take) $(field ways.0.fits)" "2 32 null null null" "what is planned"
for i in "${all[@]}"; do
  same "$(field ways.$i.way) $(field ways.$i.possible)" "${names[i]} true" "way $i"
  least=$(field ways.$i.least.budget_bytes) fastest=$(field ways.$i.fastest.peak_bytes)
  [ "$(field ways.$i.lower_bound_bytes)" -le "$least" ] || fail "way $i needs less than any plan"
  [ "$(field ways.$i.least.peak_bytes)" -le "$least" ] || fail "the plan of way $i is over its budget"
  [ "$least" -lt "$fastest" ] || fail "the least of way $i is no less than keeping everything"
  awk "BEGIN { exit !($(field ways.$i.least.step_seconds) >= $(field ways.$i.fastest.step_seconds)) }" ||
    fail "the least of way $i takes less time"
done

# Bytes by hand: matrices of F16 lie in memory as F32; queries and values have adapters of rank 8, AdamW two states.
adapters=$((8 * (256 + 256 + 256 + 128) * 4))
same "$(field ways.0.weights_bytes) $(field ways.0.trained_bytes)" "$((4 * elements)) $((4 * elements))" "all weights"
same "$(field ways.1.weights_bytes)" $((4 * elements + adapters)) "the weights beside adapters"
for i in 1 2 3 4 7; do same "$(field ways.$i.trained_bytes)" $adapters "what is trained in way $i"; done
[ "$(field ways.0.state_bytes)" -ge $((8 * elements)) ] || fail "AdamW has two states for each weight"
for i in 5 6; do
  same "$(field ways.$i.trained_bytes)" $((4 * elements)) "all weights in way $i"
  [ $((2 * $(field ways.$i.state_bytes))) -lt "$(field ways.0.state_bytes)" ] || fail "the states of way $i are no smaller"
done
same "$(field ways.7.state_bytes) $(field ways.7.gradient_bytes)" "0 0" "states and gradients of forward passes"
for i in 9 10 11; do
  [ "$(field ways.$i.least.peak_bytes)" -lt "$(field ways.0.least.peak_bytes)" ] || fail "the disk saves nothing in way $i"
done
[ "$(field ways.8.trained_bytes)" -lt $((elements / 2)) ] || fail "the side net is not narrow"
linear=$((2 * 256 * 256 + 2 * 256 * 128 + 3 * 512 * 256)) # what --base has in blocks: of 32 in 34 bytes, of 64 in 36
rest=$((4 * (elements - linear) + adapters))
same "$(field ways.2.weights_bytes)" $((rest + linear / 32 * 34)) "the weights with q8_0"
same "$(field ways.3.weights_bytes)" $((rest + linear / 64 * 36)) "the weights with nf4"
[ "$(field ways.4.weights_bytes)" -lt "$bytes" ] || fail "weights on disk are in memory"

# The header alone: a file whose weights are a hole gives the same.
python3 "$source/tests/cli/small_llama.py" hollow.gguf --hollow >/dev/null
expect 0 "$neap" plan --model hollow.gguf "${shape[@]}" --json
sed 's/hollow\.gguf/model.gguf/g' out >of_hollow
cmp -s ways of_hollow || fail "the table is made of more than the header"

# What the table says is what a run does: its command, with data.
expect 0 "$neap" plan model.gguf "${shape[@]}" --data text:text --json
same "$(field steps_per_pass)" $(($(field records) / 2)) "steps of a pass"
cp out ways
planned() { # planned WAY PLAN COMMAND: the run of the command takes the bytes of the plan
  local words
  eval "words=($3)"
  same "${words[0]} ${words[1]}" "neap finetune" "the command"
  expect 0 "$neap" "${words[@]:1}" --force --steps 1 --evaluate off --json
  same "$(field planned_peak_bytes)" "$("$json_field" "$1.$2.peak_bytes" <ways)" "the planned peak of '$3'"
  [ "$(field measured_peak_bytes)" -le "$(field budget_bytes)" ] || fail "'$3' takes more than its budget"
}
for i in "${all[@]}"; do planned ways.$i least "$("$json_field" ways.$i.command <ways)"; done
expect 0 "$neap" plan model.gguf "${shape[@]}" --lora 4 --micro-batch 1 --data text:text --budget 2MiB --json
cp out ways
same "$(field micro_batches) $(field budget_bytes) $(field ways.0.fits) $(field ways.4.fits)" "2 2097152 false true" "within 2 MiB"
same "$(field ways.1.trained_bytes)" $((adapters / 2)) "adapters of rank 4"
taken=$(field take)
for i in "${all[@]}"; do [ "$(field ways.$i.way)" != "$taken" ] || place=$i; done
planned "ways.$place" within "$("$json_field" command <ways)"

# Losses of the ways: those of the runs that the commands make; ways with the same bits are trained once; losses are kept.
export XDG_CACHE_HOME=$folder/cache
trying=(plan model.gguf "${shape[@]}" --data text:text --try 5 --json)
expect 0 "$neap" "${trying[@]}"
cp out tried
for i in 0 1 8; do
  eval "words=($("$json_field" ways.$i.command <tried))"
  expect 0 "$neap" "${words[@]:1}" --force --steps 5 --metrics metrics --json
  same "$("$json_field" ways.$i.try.held_out_loss <tried)" "$(field test_loss)" "the held-out loss of '${names[i]}'"
  mean=$(tail -n 2 metrics | python3 -c 'import json, sys; print("%.8g" % (sum(json.loads(line)["loss"] for line in sys.stdin) / 2))')
  same "$(printf %.8g "$("$json_field" ways.$i.try.loss <tried)")" "$mean" "the loss of '${names[i]}'"
  same "$("$json_field" ways.$i.try.kept <tried) $("$json_field" ways.$i.try.same_as <tried)" "false null" "a try of '${names[i]}'"
done
for pair in "4 lora" "9 full" "11 full, apollo-mini"; do
  same "$("$json_field" "ways.${pair%% *}.try.same_as" <tried)" "${pair#* }" "the way with the same bits"
done
expect 0 "$neap" "${trying[@]}"
for i in 0 1 8; do
  same "$(field ways.$i.try.kept) $(field ways.$i.try.loss) $(field ways.$i.try.digest)" \
    "true $("$json_field" ways.$i.try.loss <tried) $("$json_field" ways.$i.try.digest <tried)" "what was kept of '${names[i]}'"
done
echo "another line" >>text

# States of 8 bits that no tensor has are refused; where some have them, the report says how many.
tune=("$neap" finetune model.gguf --data text:text "${shape[@]}" --steps 1 --states 8bit)
expect 2 "${tune[@]}"
says "--states 8bit does nothing here: none of the 4 trained tensors is large enough"
expect 2 "${tune[@]}" --side 16 --states-f32 '*'
says "--states 8bit does nothing here: none of the"
expect 0 "${tune[@]}" --lora 16
grep -qxF "techniques    states8 (states of 3 of 4 tensors in 8 bits)" out || fail "$(cat out)"

# No adapters without a word for what is trained instead.
expect 2 "$neap" finetune model.gguf --data text:text "${shape[@]}" --steps 1 --lora 0
says "--lora 0 trains no adapter; give --full to train all weights"
expect 0 "$neap" finetune model.gguf --data text:text "${shape[@]}" --steps 1 --lora 0 --full --json
expect 0 "$neap" "${trying[@]}" --budget "$("$json_field" ways.1.least.budget_bytes <tried)"
same "$(field ways.1.try.kept) $(field ways.0.try.reason)" "false does not fit" "a try on other data, within a budget"
expect 2 "$neap" plan model.gguf "${shape[@]}" --try 5
says "--try goes with --data"
expect 2 "$neap" plan "${small[@]}" --try 5
says "--try only applies to the table of ways"
for choice in "--base nf4" "--budget min"; do
  expect 2 "$neap" plan model.gguf "${shape[@]}" --data text:text $choice
  says "--data: only applies to the table of ways, but $choice asks for one plan"
done

# Few steps have no median time; losses that cannot be kept are told once; a way without a folder on a disk does not end the others.
: >no-folder
memory=$folder
if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ]; then memory=$(mktemp -d /dev/shm/neap-ways-XXXXXX); fi
trap 'rm -rf "$folder" "$memory"' EXIT
lora=$("$json_field" ways.1.least.budget_bytes <tried) disk=$("$json_field" ways.9.least.budget_bytes <tried)
[ "$memory" = "$folder" ] || cp model.gguf text "$memory"
cd "$memory"
expect 0 env XDG_CACHE_HOME="$folder/no-folder" "$neap" plan model.gguf "${shape[@]}" --data text:text --try 2 --json \
  --budget $((lora > disk ? lora : disk))
same "$(grep -c "losses are not kept" err)" 1 "that losses are not kept is said once"
same "$(field ways.1.try.step_seconds) $(field ways.1.fits) $(field ways.0.try.reason)" "null true does not fit" "a try of few steps"
[ "$(field ways.1.try.peak_bytes)" -gt 0 ] || fail "a try has no bytes"
case $memory:$(field ways.9.try.reason 2>/dev/null) in
/dev/shm/*:*"its files lie in memory"* | "$folder":*) ;;
*) fail "a way whose folder lies in memory is not refused in its row" ;;
esac
cd "$folder"

# For people; nothing fits; what chooses one way plans that; and what does not go together.
expect 0 "$neap" plan model.gguf "${shape[@]}"
for name in "${names[@]}"; do [ "$(grep -cF "$name   " out)" = 2 ] || fail "'$name' is not in both tables"; done
grep -qF "neap plan model.gguf --batch 2 --length 32 --threads 1 --budget available" out || fail "there is no advice"
expect 3 "$neap" plan model.gguf "${shape[@]}" --budget 64KiB
grep -q "no way fits 64.0 KiB" out || fail "that nothing fits is not said"
for one in "--budget max" "--lora 8 --base nf4"; do
  expect 0 "$neap" plan model.gguf "${shape[@]}" $one --json
  if grep -q '"ways"' out; then fail "$one plans one way"; fi
done
expect 2 "$neap" plan "${small[@]}" --data synthetic
says "--data only applies to the table of ways"
expect 2 "$neap" plan model.gguf "${shape[@]}" --micro-batch auto
expect 2 "$neap" plan model.gguf --batch 3 --length 32 --micro-batch 2
says "must divide the batch of 3"
