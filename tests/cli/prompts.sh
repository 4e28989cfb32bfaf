# neap generate --prompts: the texts are those of one prompt after the other; what prompts have in common is read once, by a transformer
# exactly, by a recurrent model from the states that it keeps, within the budget.
source "$(dirname "$0")/common.bash"

for i in $(seq 60); do echo "the cat sat on mat $((i % 7)), the dog ran."; done >text
train=("$neap" train --threads 1 --length 40 --batch 4 --steps 12 --optimizer adamw --lr 0.01 --evaluate off)
printf '%s\n' "the cat sat on mat 1" "the dog" "the cat sat on mat 2" "the cat" "" "the cat sat on mat 1" "the dog ran" >lines
# The least that is read: each edge of the tree of prompts once, and of a prompt that is all of another its last token.
prompts=7 tree=$((20 + 3 + 1 + 4 + 1 + 1 + 1))
for model in gpt-1x16x2 llama-1x16x2x1 char-lstm-1x16; do
  expect 0 "${train[@]}" --model $model --data text:text,tokens=characters --out $model
  generate=("$neap" generate $model --tokens 9 --threads 1 --seed 5)
  : >wanted
  while IFS= read -r line; do
    expect 0 "${generate[@]}" --prompt "$line"
    cat out >>wanted
  done <lines
  expect 0 "${generate[@]}" --prompts lines
  cmp out wanted || fail "$model: texts differ from those of single prompts: $(diff out wanted)"
  says "63 tokens after $prompts prompts"
  expect 0 "${generate[@]}" --prompts lines --json
  read=$(field prompt_tokens) kept=$(field kept_tokens)
  [ "$kept" -gt 0 ] && [ "$kept" -lt "$read" ] || fail "$model: $kept of $read tokens are not read again"
  same "$(field measured_peak_bytes)" "$(field planned_peak_bytes)" "memory"
  if [ $model != char-lstm-1x16 ]; then
    [ $((read - kept)) -le $tree ] || fail "$model: $((read - kept)) tokens are read, $tree would do"
    same "$(field states)" 0 "states of a transformer"
    continue
  fi
  [ "$(field states)" -gt 0 ] || fail "no state is kept"
  expect 0 "${generate[@]}" --prompts lines --states 1 --json
  [ "$(field states)" = 1 ] && [ "$(field kept_tokens)" -le "$kept" ] || fail "one state keeps $(field kept_tokens) tokens of $kept"
  peak=$(field planned_peak_bytes) bytes=$(field state_bytes)
  for states in 0 2; do # of which the budget has room for these
    expect 0 "${generate[@]}" --prompts lines --budget $((peak + states * bytes))
    cmp out wanted || fail "$model: other texts with $states states"
    expect 0 "${generate[@]}" --prompts lines --budget $((peak + states * bytes)) --json
    [ "$(field states)" -le $states ] || fail "$(field states) states in a budget for $states"
  done
  expect 0 "${generate[@]}" --prompts lines --states 0
  cmp out wanted || fail "$model: other texts without states"
done

# A refused prompt is named by its number; files and options that do not go together.
printf 'the\ncat@\n' >unknown
expect 1 "$neap" generate gpt-1x16x2 --prompts unknown
says "prompt 2: "
expect 2 "$neap" generate gpt-1x16x2 --prompts lines --prompt a
says "--prompt and --prompts are both given"
expect 2 "$neap" generate gpt-1x16x2 --states 3
says "--states 3 does nothing without --prompts"
: >empty
expect 2 "$neap" generate gpt-1x16x2 --prompts empty
says "there are no lines"
expect 1 "$neap" generate gpt-1x16x2 --prompts gone
says "gone: cannot be read"

# Bytes that are no UTF-8 stay in the result.
expect 0 "${train[@]}" --model gpt-1x16x2 --data text:text,tokens=bytes --out bytes
printf 'a\xffb\n' >broken
expect 0 "$neap" generate bytes --prompts broken --tokens 3 --json
grep -qF '"texts": [{"prompt": "a' out || fail "the text of a prompt that is no UTF-8 is missing: $(cat out)"
expect 0 "$neap" generate bytes --prompt "$(cat broken)" --tokens 3 --json
has prompt text
