# Steps, batches and tokens take no memory that the plan does not have: as many requests for more than 4 KiB with one of
# them as with several, of any library (tests/watch_memory.c).
source "$(dirname "$0")/common.bash"
watcher=$build/tests/libwatch_memory.so

# requests COMMAND...: how many the command made.
requests() {
  rm -f requests
  WATCH_FILE=requests LD_PRELOAD=$watcher "$@" >out 2>err || fail "$*"
  [ -s requests ] || fail "the allocator that watches was not loaded: $*"
  head -1 requests
}
# alike WORDS COMMAND... N...: the command, ended by each number, makes as many as with the first.
alike() {
  local words=$1 command=$2 first='' number
  shift 2
  for number; do
    read -ra all <<<"$command $number"
    count=$(requests "${all[@]}")
    [ -n "$first" ] || first=$count
    same "$count" "$first" "requests of $words with $number (the last: $(tail -3 requests | tr '\n' ' '))"
  done
}

# The allocator sees what it has to.
[ "$(requests "$neap" graph "${small[@]}" -o -)" -gt 0 ] || fail "nothing is seen"

seq -s ' ' 1 3000 >text
mkdir data
for split in train val test; do make_pairs $split 100 3; done
python3 "$(dirname "$0")/small_llama.py" llama.gguf >/dev/null
one="--threads 2 --evaluate off --planner evict"
while read -r words model; do
  alike "$words" "$neap train $one $model --steps" 1 2 5
done <<'END'
wrn --model wrn-10-1 --batch 8 --data synthetic:images=64
resnet-50 --model resnet50 --image 3x64x64 --batch 2 --data synthetic:images=64
resnet-50-in-16-bits --model resnet50 --image 3x64x64 --batch 2 --data synthetic:images=64 --precision bf16
mobilenet --model mobilenet-v2 --image 3x64x64 --batch 2 --data synthetic:images=64
gpt --model gpt-2x64x2 --batch 8 --micro-batch 4 --length 16 --data text:text
lstm --model char-lstm-2x64 --batch 8 --length 16 --data text:text
lora --model llama.gguf --lora 4 --batch 4 --length 16 --data text:text
lora-on-disk --model llama.gguf --lora 4 --base-on-disk always --batch 4 --length 16 --data text:text
pairs --model dynamicconv-32 --batch 200 --data parallel:data:xx-yy,tokens=300
END

expect 0 "$neap" train --model gpt-2x64x2 --batch 8 --length 16 --data text:text $one --steps 2 --out run
requests "$neap" generate run --prompt 1 --temperature 0 --tokens 12 >all # the text is flushed token by token
same "$(sed -n 2p requests)" 0 "requests between the first token and the last (the last of all: $(tail -3 requests | tr '\n' ' '))"
expect 0 "$neap" train "${small[@]}" --data synthetic:images=64 $one --steps 1 --out net
for records in 8 16 64; do # batches of 8
  counts+=" $(requests "$neap" predict net --train --batch 8 --data synthetic:images=$records -o "$records.npy")"
done
same "$counts" " ${counts##* } ${counts##* } ${counts##* }" "requests of predictions for 1, 2 and 8 batches"
