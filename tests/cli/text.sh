# Training on text, on ids of tokens and on pairs: what it tells, that it goes on with the same bits after it was killed,
# that a budget changes nothing; and bad files, which are named with the line.
source "$(dirname "$0")/common.bash"

for i in $(seq 400); do echo "line $i: the cat sat on mat $((i % 7)), the dög ran."; done >text.txt
head -c 3000 text.txt >held.txt
printf '\nö' >>held.txt
for i in $(seq 60); do echo "ein haus $i am meer und $((i % 5)) boote"; done >train.de
for i in $(seq 60); do echo "a house $i by the sea and $((i % 5)) boats"; done >train.en
head -9 train.de >val.de
head -9 train.en >val.en
python3 - <<'PY' 2>/dev/null || skip=1
import struct
ids = [i * 7 % 50 for i in range(3000)]
open("ids.bin", "wb").write(struct.pack("<3000H", *ids))
header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3000,), }".ljust(117) + "\n"
open("ids.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<3000i", *ids))
PY

small=(--threads 1 --length 16 --optimizer adamw --lr 0.01)
sets=("text:text.txt" "text:text.txt,tokens=characters" "text:text.txt,tokens=300,test=held.txt")
[ -n "${skip:-}" ] || sets+=("tokens:ids.bin" "tokens:ids.npy,test=ids.npy")
for set in "${sets[@]}"; do
  run=("$neap" train --model gpt-1x16x2 --data "$set" --batch 8 "${small[@]}" --json)
  expect 0 "${run[@]}" --steps 8
  has test_loss test_accuracy weights_sha256
  case $set in text:*) has bits_per_byte ;; esac
  weights=$(field weights_sha256) loss=$(field test_loss)
  expect 0 "${run[@]}" --steps 8 "${tight[@]}" --micro-batch 4 --schedule constant
  expect 0 "${run[@]}" --steps 8 "${tight[@]}"
  same "$(field weights_sha256) $(field test_loss)" "$weights $loss" "$set in the least memory"
done

# Masked words.
expect 0 "$neap" train --model bert-1x16x2 --data text:text.txt --batch 8 "${small[@]}" --steps 3 --json
has test_loss

# Killed at some step, it goes on with the same bits; on pairs in several lengths, too.
for data in "gpt-1x16x2 text:text.txt,tokens=characters 8 --length 16" \
  "transformer-8 parallel:$folder:de-en,tokens=300 64" "lightconv-8 parallel:$folder:de-en,tokens=300 64 --micro-batch 1"; do
  set -- $data
  run=("$neap" train --model "$1" --data "$2" --batch "$3" "${@:4}" --threads 1 --optimizer adam --lr 0.003
    --schedule inverse-sqrt --warmup-steps 5 --dropout 0.1 --label-smoothing 0.1 --steps 30 --json)
  expect 0 "${run[@]}"
  weights=$(field weights_sha256)
  rm -rf killed
  "${run[@]}" --out killed --checkpoint-every 3 >out 2>err &
  running=$!
  for _ in $(seq 1200); do [ ! -e killed/state.json ] || grep -q '"step": 0,' killed/state.json || break; sleep 0.05; done
  kill -KILL $running 2>/dev/null || true
  wait $running 2>/dev/null || true
  expect 0 "$neap" train --resume killed --json
  same "$(field weights_sha256)" "$weights" "$1 that was killed and goes on"
  expect 0 "$neap" evaluate killed --json
  has test_loss
done

# What is wrong is named, with its line.
bad() { # bad WORDS MODEL DATA
  local status=0
  "$neap" train --model "$2" --data "$3" --batch 8 --length 16 --threads 1 --steps 1 >out 2>err || status=$?
  [ $status = 1 ] || [ $status = 2 ] || fail "$3 ended with $status"
  says "$1"
}
printf 'good\nb\xffd\n' >bad.txt
bad "bad.txt: line 2, column 2: byte 0xFF is not UTF-8" gpt-1x16x2 text:bad.txt,tokens=characters
printf 'short' >short.txt
bad "short.txt: its training part has 4 tokens" gpt-1x16x2 text:short.txt
bad "short.txt: its test part has 5 tokens" gpt-1x16x2 text:text.txt,tokens=bytes,test=short.txt
bad "bad.txt: line 2, column 2: byte 0xFF is not UTF-8" gpt-1x16x2 text:text.txt,tokens=characters,test=bad.txt
: >empty.txt
bad "empty.txt" gpt-1x16x2 text:empty.txt
bad "nothing.txt: " gpt-1x16x2 text:nothing.txt
if [ -z "${skip:-}" ]; then
  expect 1 "$neap" train --model gpt-1x16x2 --data tokens:ids.bin --classes 40 --batch 8 --length 16 --steps 1
  says "ids.bin: token 7 is 49, but the vocabulary has 40"
  head -c 5999 ids.bin >odd.bin
  bad "odd.bin" gpt-1x16x2 tokens:odd.bin
fi
mkdir pairs
cp train.de val.de val.en pairs
head -50 train.en >pairs/train.en
bad "train" transformer-8 "parallel:pairs:de-en"
sed '3s/.*//' train.en >pairs/train.en
bad "line 3" transformer-8 "parallel:pairs:de-en"
says "pairs/train.en: line 3 is empty"
bad "write parallel:DIR:de-en" transformer-8 parallel:pairs
bad "learns from images" wrn-10-1 text:text.txt
bad "learns from sequences of tokens" gpt-1x16x2 "parallel:$folder:de-en"
bad "tokens=many must be" gpt-1x16x2 text:text.txt,tokens=many

# A tokenizer that another run left; for the same text it is the same run.
run=("$neap" train --model gpt-1x16x2 --batch 8 "${small[@]}" --steps 3 --json --data)
expect 0 "${run[@]}" text:text.txt,tokens=290 --out first
weights=$(field weights_sha256)
expect 0 "${run[@]}" text:text.txt,tokens=first/tokenizer.json
same "$(field weights_sha256)" "$weights" "a run with the tokenizer of another"

# A byte-order mark is skipped, and said; the run is that of the text without it.
for _ in $(seq 200); do echo 'the quick brown fox jumps over the lazy dog'; done >plain.txt
{ printf '\357\273\277' && cat plain.txt; } >marked.txt
for text in plain marked; do
  expect 0 "$neap" train --model char-lstm-1x8 --data text:$text.txt --length 8 --batch 4 --threads 1 --steps 2 --json
  field weights_sha256 >$text.weights
done
cmp plain.weights marked.weights || fail "a byte-order mark changes what is learned"
says "marked.txt: begins with a byte-order mark"
