# A longest pair that is asked for: longer ones are left out of the training part and cut in the other, and counted; the line
# that sets the memory is named.
source "$(dirname "$0")/common.bash"

mkdir data
make_pairs train 1500 1
make_pairs val 50 2
mkdir long
cp data/train.xx data/train.yy data/val.xx data/val.yy long
awk 'BEGIN { for (i = 0; i < 400; i++) printf "ka "; print "" }' | tee -a long/train.xx >>long/train.yy
awk 'BEGIN { for (i = 0; i < 90; i++) printf "ka "; print "" }' | tee -a long/val.xx >>long/val.yy
run=("$neap" train --model transformer-32 --batch 400 --steps 2 --evaluate off --threads 1 --json)
expect 0 "${run[@]}" --data parallel:data:xx-yy,tokens=300 --out short
cp short/tokenizer.json .
expect 0 "${run[@]}" --data parallel:data:xx-yy,tokens=tokenizer.json
weights=$(field weights_sha256) planned=$(field planned_peak_bytes) longest=$(field longest_record)
same "$(field skipped_records) $(field cut_records)" "0 0" "pairs beyond a length that is not asked for"
length=$(sed 's/.* of \([0-9]*\) tokens/\1/' <<<"$longest")
expect 0 "${run[@]}" --data parallel:long:xx-yy,tokens=tokenizer.json --length "$length"
says "1 training pairs have more than $length tokens and are left out; 1 test pairs are cut"
same "$(field skipped_records) $(field cut_records)" "1 1" "pairs beyond the length"
same "$(field weights_sha256)" "$weights" "the weights without the long pair"
same "$(field planned_peak_bytes)" "$planned" "the memory without the long pair"
expect 0 "$neap" train --model transformer-32 --batch 400 --steps 2 --threads 1 --data parallel:long:xx-yy,tokens=tokenizer.json --length "$length" --out limited
expect 0 "$neap" evaluate limited --json
expect 3 "${run[@]}" --data parallel:long:xx-yy,tokens=tokenizer.json --budget 1MB
says "the longest pair sets the memory (long/train.xx: line 1501, of "
expect 2 "${run[@]}" --data parallel:long:xx-yy,tokens=tokenizer.json --length 2
says "all of its pairs have more than 2 tokens"
expect 2 "${run[@]}" --data parallel:data:xx-yy,tokens=300 --augment on
says "--augment on"
