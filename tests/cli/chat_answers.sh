# neap chat: answers are those of neap generate on the whole conversation, whatever of it was read before; how a
# conversation ends, what is dropped, and what is refused.
source "$(dirname "$0")/common.bash"

for i in $(seq 60); do
  printf '{"messages": [{"role": "user", "content": "say %d"}, {"role": "assistant", "content": "it is %d."}]}\n' \
    $((i % 7)) $((i % 7))
done >lines.jsonl
train=("$neap" train --threads 1 --batch 4 --length 96 --optimizer adamw --lr 0.01 --evaluate off --data lines.jsonl)
render() { printf '<|im_start|>%s\n%s<|im_end|>\n' "$@"; }

# An answer ends with the text of its end, or with its tokens.
answers() { # answers RUN: two turns, and the same from all of the text
  local run=$1 prompt first second
  printf 'say 3\nsay 5\n' >said
  expect 0 "$neap" chat "$run" --temperature 0 --tokens 24 --threads 1 --length 400 --json <said
  first=$(field turns.0.assistant) second=$(field turns.1.assistant)
  same "$(field turns.0.kept_tokens)" 0 "$run: what was read before the first turn"
  grep -q '"dropped_turns": 0' out || fail "$run: turns were dropped"
  prompt=$(render user "say 3"; printf '<|im_start|>assistant\n.')
  expect 0 "$neap" generate "$run" --temperature 0 --tokens 24 --threads 1 --prompt "${prompt%.}" --json
  same "$first" "$(field text | sed 's/<|im_end|>.*//;/^$/d' | head -1)" "$run: the first answer"
  prompt=$(render user "say 3" assistant "$first" user "say 5"; printf '<|im_start|>assistant\n.')
  expect 0 "$neap" generate "$run" --temperature 0 --tokens 24 --threads 1 --prompt "${prompt%.}" --json
  same "$second" "$(field text | sed 's/<|im_end|>.*//;/^$/d' | head -1)" "$run: the second answer"
  expect 0 "$neap" chat "$run" --temperature 0 --tokens 24 --threads 1 --length 400 <said
  same "$(cat out)" "$first
$second" "$run: the answers as they come"
  says "2 turns, "
}
expect 0 "${train[@]}" --model llama-1x32x2x1 --steps 60 --out llama
answers llama
says "tokens a second"
expect 0 "$neap" chat llama --temperature 0 --tokens 24 --length 400 --json <said
[ "$(field turns.1.kept_tokens)" -gt 40 ] || fail "what was read before is read again"
field turns.0.assistant | grep -qx 'it is [0-6]\.' || fail "the model has learned nothing: $(cat out)"
grep -q '"ended": true' out || fail "the answer did not end by itself"
# A recurrent state goes on, too.
expect 0 "${train[@]}" --model char-lstm-1x32 --steps 8 --out recurrent
answers recurrent

# A conversation that is too long loses its oldest turns, which is told once; a line that is too long is refused.
for i in 1 2 3 4 5 6; do echo "say $i"; done >many
expect 0 "$neap" chat llama --temperature 0 --tokens 20 --length 160 --json --system "hi" <many
grep -q '"dropped_turns": 1' out || fail "no turn was dropped"
same "$(grep -c 'oldest turns are dropped' err)" 1 "how often dropped turns are reported"
head -c 300 /dev/zero | tr '\0' a >long
expect 2 "$neap" chat llama --length 160 <long
says "shorten it, or give a larger --length"

# What was given decides the text; no lines are no turns.
expect 0 "$neap" chat llama --seed 3 --temperature 2 --tokens 9 <said
cp out first
expect 0 "$neap" chat llama --seed 3 --temperature 2 --tokens 9 <said
cmp out first || fail "one seed, two texts"
expect 0 "$neap" chat llama </dev/null
[ ! -s out ] || fail "an answer to nothing"
expect 0 "$neap" chat llama --template plain --tokens 5 --temperature 0 <said

for i in $(seq 60); do echo "the cat sat on mat $((i % 7))."; done >text
expect 0 "$neap" train --threads 1 --length 16 --batch 4 --steps 2 --model gpt-1x16x2 --data text:text --out text_run
expect 2 "$neap" chat text_run <said
quiet
says "has no chat template; name the one that it was trained with (--template NAME"
expect 2 "$neap" chat llama --template chatlm <said
says "the names are chatml"
expect 2 "$neap" chat text_run --template chatml --length 17 <said
says "the model has positions for 16"
expect 3 "$neap" chat llama --budget 1KiB <said
quiet
says "--budget"
expect 2 "$neap" chat
printf 'a\0b\n' >zero
expect 1 "$neap" chat llama <zero
says "a line contains a zero byte"
