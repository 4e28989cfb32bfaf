# neap generate: text of a seed, of the model and its tokenizer; and what is refused.
source "$(dirname "$0")/common.bash"

for i in $(seq 60); do echo "the cat sat on mat $((i % 7)), the dög ran."; done >text
train=("$neap" train --threads 1 --length 16 --batch 4 --steps 12 --optimizer adamw --lr 0.01 --evaluate off)
for model in gpt-1x16x2 llama-1x16x2x1 char-lstm-1x16; do
  expect 0 "${train[@]}" --model $model --data text:text,tokens=characters --out $model
  cp $model/tokenizer.json before
  expect 0 "$neap" train --resume $model --steps 12
  cmp before $model/tokenizer.json || fail "a run that goes on has another tokenizer"
  cp -r $model before-$model
  text=("$neap" generate $model --prompt "the " --tokens 9 --threads 1)
  expect 0 "${text[@]}" --seed 5
  cp out first
  grep -q "^the " out || fail "the text does not begin with the prompt"
  says "9 tokens after 4"
  expect 0 "${text[@]}" --seed 5
  cmp out first || fail "$model: one seed, two texts"
  expect 0 "${text[@]}" --seed 5 --budget min
  cmp out first || fail "$model: another text within the least memory"
  expect 0 "${text[@]}" --seed 6 --temperature 3
  ! cmp -s out first || fail "$model: two seeds, one text"

  # The most likely token has no seed; to choose from one token is to take it.
  expect 0 "${text[@]}" --temperature 0
  cp out greedy
  expect 0 "${text[@]}" --temperature 0 --seed 9
  cmp out greedy || fail "$model: the most likely text depends on the seed"
  expect 0 "${text[@]}" --top-k 1 --seed 3
  cmp out greedy || fail "$model: one token to choose from is not the most likely one"

  expect 0 "${text[@]}" --seed 5 --json
  has model prompt text seconds tokens_per_second budget_bytes resident_bytes
  same "the $(field text)" "$(cat first)" "text as JSON"
  same "$(field tokens) $(field prompt_tokens)" "9 4" "tokens"
  same "$(field measured_peak_bytes)" "$(field planned_peak_bytes)" "memory"
  diff -r $model before-$model || fail "a text has changed the checkpoint"
done

# A model with places ends where they do: 16 are read, and the token behind them is made.
expect 0 "$neap" generate gpt-1x16x2 --prompt "the " --tokens 500 --json
same "$(field tokens)" 13 "tokens of a model with 16 places"
expect 0 "$neap" generate llama-1x16x2x1 --tokens 40 --json
same "$(field tokens) $(field prompt_tokens)" "40 1" "tokens of a model without places"

# Characters of several bytes, token by token, come out whole.
expect 0 "${train[@]}" --model gpt-1x16x2 --data text:text --out bytes
expect 0 "$neap" generate bytes --prompt "dö" --tokens 8 --temperature 3 --json
same "$(field prompt_tokens)" 3 "bytes of a prompt"
expect 0 "${train[@]}" --model gpt-1x16x2 --data text:text,tokens=300 --precision bf16 --out pairs
expect 0 "$neap" generate pairs --prompt "the cat"

# What another run has left in the folder is no tokenizer of this one.
head -c 4000 /dev/zero >ids
expect 0 "${train[@]}" --model gpt-1x16x2 --data tokens:ids --out bytes --force
[ ! -e bytes/tokenizer.json ] || fail "the tokenizer of another run"
expect 1 "$neap" generate bytes
quiet
says tokenizer.json

expect 1 "$neap" generate gpt-1x16x2 --prompt "the Ж"
quiet
says "prompt: line 1, column 5"
expect 2 "$neap" generate gpt-1x16x2 --prompt "the cat sat on mat 1, the"
quiet
says "positions for 16"
expect 1 "$neap" generate missing
quiet
says missing
expect 3 "$neap" generate gpt-1x16x2 --budget 1KiB
quiet
says "--budget"
for wrong in "--top-k 0" "--tokens 0" "--temperature -1" "--seed -1" more; do
  # shellcheck disable=SC2086
  expect 2 "$neap" generate gpt-1x16x2 $wrong
  quiet
  says "$wrong"
done
expect 2 "$neap" generate
expect 0 "$neap" train --model mlp --data synthetic:images=20 --batch 4 --steps 1 --threads 1 --out images
expect 1 "$neap" generate images
quiet
