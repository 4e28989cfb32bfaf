# Patterns of attention: one seed has the same bits in every budget and number of threads, and when a run goes on; what does not
# go together is refused by its name.
source "$(dirname "$0")/common.bash"

pattern='[window:8;strided:6];fixed:8,2'
gpt=(--model gpt-2x32x2 --classes 30 --length 70 --batch 4)
train=("$neap" train "${gpt[@]}" --data synthetic --seed 3 --evaluate off)
expect 0 "${train[@]}" --attention "$pattern" --steps 6 --threads 1 --out run --checkpoint-every 3 --keep-checkpoints 3 --json
weights=$(field weights_sha256)
most=$(field planned_peak_bytes)
for budget in 60% min; do
  expect 0 "${train[@]}" --attention "$pattern" --steps 6 --threads 1 "${at_once[@]}" --budget $budget --json
  same "$(field weights_sha256)" "$weights" "weights within $budget"
  [ "$(field planned_peak_bytes)" -lt "$most" ] || fail "$budget saves nothing"
done
expect 0 "${train[@]}" --attention "$pattern" --steps 6 --threads 3 --json
same "$(field weights_sha256)" "$weights" "weights of three threads"

# The patterns are the checkpoint's.
expect 0 "$neap" train --resume run/step-3 --evaluate off --json
same "$(field steps)" 6 "steps in all"
same "$(field weights_sha256)" "$weights" "weights of the run that went on"
grep -qF '"attention": "[window:8;strided:6];fixed:8,2"' run/state.json || fail "state.json does not have the patterns"
expect 2 "$neap" train --resume run --attention dense
says attention

# A window has the bits that it has as a pattern, and other patterns have others.
expect 0 "${train[@]}" --window 9 --steps 2 --json
window=$(field weights_sha256)
expect 0 "${train[@]}" --attention window:9 --steps 2 --json
same "$(field weights_sha256)" "$window" "weights of a window"
expect 0 "${train[@]}" --attention 'window:9;strided:9' --steps 2 --json
[ "$(field weights_sha256)" != "$window" ] || fail "the second layer's pattern changes nothing"

# Global tokens are seen by all; an encoder's attend to all, with weights of their own, which are a run's.
expect 0 "${train[@]}" --attention window:9,global=2 --steps 2 --json
[ "$(field weights_sha256)" != "$window" ] || fail "global tokens change nothing"
bert=("$neap" train --model bert-2x32x2 --classes 30 --length 70 --batch 4 --data synthetic --seed 3 --evaluate off --threads 1)
expect 0 "${bert[@]}" --attention 'window:9,global=3;window:9' --steps 4 --out global --checkpoint-every 2 --keep-checkpoints 2 --json
weights=$(field weights_sha256)
grep -q 'block1.global_query.weight' global/weights* || fail "the first layer has no projections of global tokens"
! grep -q 'block2.global_query.weight' global/weights* || fail "the second layer has projections that nothing reads"
expect 0 "${bert[@]}" --attention 'window:9,global=3;window:9' --steps 4 "${at_once[@]}" --budget min --json
same "$(field weights_sha256)" "$weights" "weights with global tokens within the least budget"
expect 0 "$neap" train --resume global/step-2 --evaluate off --json
same "$(field weights_sha256)" "$weights" "weights with global tokens of the run that went on"

# Less is computed, and planned.
plan=("$neap" plan --model gpt-1x32x2 --classes 30 --length 4096 --batch 1 --planner keep-all --json)
expect 0 "${plan[@]}"
dense=$(field cost)
expect 0 "${plan[@]}" --attention strided:64
awk -v a="$(field cost)" -v b="$dense" 'BEGIN { exit !(a < b / 2) }' || fail "a sparse pattern costs as much as a dense one"

# refused STATUS TEXT OPTION...
refused() {
  local status=$1 text=$2
  shift 2
  expect "$status" "$neap" plan "$@"
  quiet
  says "$text"
}
refused 2 "window:0" "${gpt[@]}" --attention window:0
refused 2 "dense;window:8" "${gpt[@]}" --attention 'dense;window:8;dense'
refused 2 "3 patterns for 2 heads" "${gpt[@]}" --attention '[dense;window:8;dense]'
refused 1 "no source of data marks tokens" --model bert-1x32x2 --attention window:8,global=tokens
refused 2 "the same" "${gpt[@]}" --attention '[window:8,global=2;window:8]'
refused 2 "give one of them" "${gpt[@]}" --attention dense --window 8
refused 2 "transformers of one stack" --model char-lstm-1x32 --attention window:8
refused 2 "transformers of one stack" --model wrn-10-1 --attention window:8

# A language model's file has no place for a pattern or a window, and that is told; an ONNX file has, whatever its name.
python3 "$source/tests/cli/small_llama.py" model.gguf >/dev/null
for i in $(seq 400); do echo "line $i of a text that repeats itself: $((i * i % 97)) and $((i % 7))"; done >lines
tune=("$neap" finetune model.gguf --data text:lines --length 16 --batch 4 --steps 2 --full --threads 1)
expect 0 "${tune[@]}" --attention 'window:4' --out tuned
expect 0 "$neap" export tuned --merge -o folder
says "folder: has no place for what the run attends to (attention window:4)"
expect 0 "$neap" export tuned -o network
grep -q '^checked ' out || fail "the ONNX file is not compared: $(cat out)"
expect 0 "${tune[@]}" --window 4 --out near
expect 0 "$neap" export near --merge -o nearer --json
same "$(field left_out)" "window 4" "what the folder has no place for"
