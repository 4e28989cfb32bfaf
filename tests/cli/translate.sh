# neap translate: a language whose words stand one for another is learned, and lines come out the same whatever stands
# beside them.
source "$(dirname "$0")/common.bash"

mkdir data
make_pairs train 1500 1
make_pairs val 50 2
make_pairs test 40 3
expect 0 "$neap" train --model transformer-32 --data parallel:data:xx-yy,tokens=300 --batch 400 --steps 400 --optimizer adam \
  --lr 0.004 --schedule inverse-sqrt --warmup-steps 60 --evaluate off --threads 1 --out run \
  --keep-epochs 2

# Lines that were not learned from come out right.
expect 0 "$neap" translate run --input data/test.xx --reference data/test.yy --tokenize none --json
has model lines tokens steps seconds bleu.precisions.3 bleu.brevity_penalty bleu.hypothesis_length
same "$(field lines) $(field bleu.reference_length)" "40 $(wc -w <data/test.yy)" "lines and words"
same "$(field measured_peak_bytes)" "$(field planned_peak_bytes)" "measured and planned"
awk -v bleu="$(field bleu.score)" 'BEGIN { exit !(bleu > 90) }' || fail "BLEU is $(field bleu.score)"
bleu=$(printf '%.2f' "$(field bleu.score)")
last=$(field translations.39)
expect 0 "$neap" translate run --reference data/test.yy --tokenize none <data/test.xx
says "$bleu: precisions"
cp out translated
same "$(wc -l <translated) $(tail -1 translated)" "40 $last" "lines on standard output"
expect 0 "$neap" translate run --input data/test.xx --output written --json
cmp written translated || fail "--output has other lines"
same "$(field translations)" null "translations that went to a file"

# Whatever is next to a line, how many are translated together, and where the tokenizer comes from.
tac data/test.xx >backwards
expect 0 "$neap" translate run --input backwards
tac out | cmp - translated || fail "other lines in another order"
head -7 data/test.xx >some
expect 0 "$neap" translate run --input some
head -7 translated | cmp - out || fail "other lines where there are fewer"
for more in "--lines 1" "--lines 3" "--budget min" "--threads 1"; do
  # shellcheck disable=SC2086
  expect 0 "$neap" translate run --input data/test.xx $more
  cmp out translated || fail "other lines with $more"
done
mv run/tokenizer.json kept
expect 0 "$neap" translate run --input data/test.xx
cmp out translated || fail "other lines with a tokenizer that is learned again"
mv kept run/tokenizer.json

# Fewer together where the budget has no room.
expect 0 "$neap" translate run --input data/test.xx --lines 1 --json
most=$(field planned_peak_bytes)
expect 0 "$neap" translate run --input data/test.xx --lines 30 --budget "$most" --json
[ "$(field measured_peak_bytes)" -le "$most" ] || fail "it took more than its budget of $most"
expect 3 "$neap" translate run --input data/test.xx --budget 10KiB
says "the smallest that can"
quiet

# Blank lines, ends of lines, nothing.
printf 'ka\r\n\n \t\nlo' >odd
expect 0 "$neap" translate run --input odd --output odd.out
same "$(wc -l <odd.out) $(sed -n 2,3p odd.out)" "4 " "lines of blank lines"
expect 0 "$neap" translate run --input /dev/null
[ ! -s out ] || fail "nothing has a translation"

# The mean of the last epochs translates as well; more epochs than there are do not.
expect 0 "$neap" translate run --input data/test.xx --reference data/test.yy --average 2 --json
awk -v bleu="$(field bleu.score)" 'BEGIN { exit !(bleu > 90) }' || fail "BLEU is $(field bleu.score) of a mean"
expect 2 "$neap" translate run --input some --average 3
says "--keep-epochs 3"

for beam in 1 2 16; do
  expect 0 "$neap" translate run --input data/test.xx --reference data/test.yy --beam $beam --length-penalty 0.6 --json
  awk -v bleu="$(field bleu.score)" 'BEGIN { exit !(bleu > 90) }' || fail "BLEU is $(field bleu.score) with a beam of $beam"
done
expect 0 "$neap" translate run --input data/test.xx --length-factor 0 --length-offset 1 --json
same "$(field tokens)" 80 "tokens of translations of one each and their ends"

expect 2 "$neap" translate run --input data/test.xx --reference data/val.yy
says "has 50 lines, but there are 40"
expect 2 "$neap" translate run --input /dev/null --reference /dev/null
says "there are no lines"
expect 2 "$neap" translate run --beam 0
says "--beam 0"
expect 2 "$neap" translate run --input some --beam 257
says "1 to 256"
expect 1 "$neap" translate missing
says missing
quiet
expect 1 "$neap" translate run --input missing
says "missing: cannot be read"
printf 'ka\0lo\n' >zero
expect 1 "$neap" translate run --input zero
says "line 1: contains a zero byte"
expect 0 "$neap" train "${small[@]}" --data synthetic:images=40 --steps 1 --out images
expect 2 "$neap" translate images --input some
says "wrn-10-1"
