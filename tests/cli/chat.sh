# Training on conversations: the forms of lines and how data are named, that a budget and a stop change nothing, what the
# options of conversations do, and that messages name bad lines.
source "$(dirname "$0")/common.bash"

for i in $(seq 60); do
  printf '{"messages": [{"role": "user", "content": "%d+%d="}, {"role": "assistant", "content": "%d"}]}\n' \
    $((i % 7)) $((i % 5)) $((i % 7 + i % 5))
  [ $((i % 6)) != 0 ] || printf '{"instruction": "Say it %d times.", "input": "hä?", "output": "hä? hä? hä? hä? hä?"}\n' $i
done >lines.jsonl
mkdir set
head -50 lines.jsonl >set/train.jsonl
tail -20 lines.jsonl >set/valid.jsonl

run=("$neap" train --model llama-1x16x2x1 --batch 4 --threads 1 --length 120 --optimizer adamw --lr 0.01 --json)
expect 0 "${run[@]}" --data lines.jsonl --steps 8
has test_loss test_accuracy perplexity longest_record
weights=$(field weights_sha256) loss=$(field test_loss)
expect 0 "${run[@]}" --data chat:lines.jsonl --steps 8 "${tight[@]}"
same "$(field weights_sha256) $(field test_loss)" "$weights $loss" "chat:lines.jsonl in the least memory"
for data in chat:set lines.jsonl,tokens=characters lines.jsonl,tokens=300,holdout=0.2,seed=3 chat:set/train.jsonl,test=set/valid.jsonl; do
  expect 0 "${run[@]}" --data $data --steps 4
  has test_loss
done
expect 0 "${run[@]}" --data chat:set --model gpt-1x16x2 --steps 4
has test_loss

# The loss over all tokens is another one; so is that of another template.
expect 0 "${run[@]}" --data lines.jsonl --steps 8 --train-on-prompt
[ "$(field test_loss)" != "$loss" ] || fail "--train-on-prompt changes nothing"
expect 0 "${run[@]}" --data lines.jsonl --steps 8 --template zephyr
[ "$(field test_loss)" != "$loss" ] || fail "--template changes nothing"

# Stopped, it goes on from another folder with the same bits, and is evaluated with what it was trained with.
options=(--data lines.jsonl --template llama3 --train-on-prompt --long skip --steps 8)
expect 0 "${run[@]}" "${options[@]}"
says "left out" err
weights=$(field weights_sha256) loss=$(field test_loss)
expect 0 "${run[@]}" "${options[@]}" --out whole
expect 0 "${run[@]}" "${options[@]}" --steps 3 --schedule constant --out part
mkdir elsewhere
(cd elsewhere && expect 0 "$neap" evaluate ../whole --json && same "$(field test_loss)" "$loss" "evaluated elsewhere")
(cd elsewhere && expect 0 "$neap" train --resume ../part --steps 6 --json)

expect 2 "$neap" train --resume part --steps 6 --template chatml
says "was made with"

# Conversations share rows where the model can: what they learn is the same to rounding, in fewer steps.
same "$(grep -o '"pack": *"[a-z]*"' whole/state.json)" '"pack": "on"' "state.json"
still=("${run[@]}" --length 400 --data lines.jsonl --lr 0 --weight-decay 0 --epochs 1)
expect 0 "${still[@]}"
loss=$(field test_loss) steps=$(field steps)
has rows conversations
expect 0 "${still[@]}" --pack on
same "$(field test_loss) $(field steps)" "$loss $steps" "packed or by itself"
expect 0 "${still[@]}" --pack off
[ "$(field steps)" -gt "$steps" ] || fail "packing saves no step: $(field steps) without, $steps with"
awk -v a="$(field test_loss)" -v b="$loss" 'BEGIN { exit !(a - b < 1e-5 * a && b - a < 1e-5 * a) }' ||
  fail "packed conversations have another loss: $loss for $(field test_loss)"

# A run that began before there was packing goes on as it began.
early=("${run[@]}" --data lines.jsonl --schedule constant)
expect 0 "${early[@]}" --steps 6 --pack off
weights=$(field weights_sha256)
expect 0 "${early[@]}" --steps 3 --pack off --out early
! grep -q pack early/state.json || fail "a run without packing keeps a word of it"
sed -i 's/"--pack": "off"/"--shuffle": "on"/' early/command.json # what it has anyway
unseal early
expect 0 "$neap" train --resume early --steps 6 --json
same "$(field weights_sha256)" "$weights" "gone on as it began"
expect 2 "$neap" train --resume early --steps 7 --pack on
says "was made with pack"
expect 0 "${run[@]}" --model char-lstm-1x16 --data lines.jsonl --steps 1
expect 2 "${run[@]}" --model char-lstm-1x16 --data lines.jsonl --steps 1 --pack on
says "--pack on: model 'char-lstm-1x16' cannot have several conversations in a row"
expect 2 "${run[@]}" --data text:lines.jsonl --length 16 --steps 1 --pack on
says "--pack does nothing"

expect 0 "${run[@]}" --data lines.jsonl --steps 1 --pack off
grep -q "^data .*, shuffled$" err || fail "conversations have windows, or are in another order: $(grep "^data" err)"

# What is wrong is named.
expect 2 "${run[@]}" --data lines.jsonl --steps 1 --template chatlm
says "the names are chatml"
echo '{"messages": [{"role": "user", "content": "Hi"}]}' >>set/train.jsonl
expect 1 "${run[@]}" --data chat:set --steps 1
says "set/train.jsonl: line 51"
head -50 lines.jsonl >set/train.jsonl
for data in chat:set chat:set,tokens=characters set/train.jsonl,test=set/valid.jsonl; do
  for bad in '{"messages": [{"role": "user", "content": "Hi"}]}' '{"messages": ' '' '{"text": "\ud800"}' \
    '{"messages": [{"role": "user", "content": "Hi"}, {"role": "robot", "content": "Hi"}]}'; do
    { tail -20 lines.jsonl && echo "$bad"; } >set/valid.jsonl
    expect 1 "${run[@]}" --data $data --steps 1
    says "set/valid.jsonl: line 21"
  done
done
head -c 900 lines.jsonl >text.txt
expect 2 "${run[@]}" --data text:text.txt --length 16 --steps 1 --template chatml
says "--template does nothing"
expect 2 "$neap" train --model lenet --data synthetic --steps 1 --train-on-prompt
says "--train-on-prompt"
expect 2 "$neap" train --model bert-1x16x2 --data lines.jsonl --steps 1
says "masked"
