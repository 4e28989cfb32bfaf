# The records of an epoch that fill no batch: left out, or a short last step whose loss is the mean over them.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
oracle() { python3 "$source/tests/cli/small_network.py" "$@"; }
near() { awk "BEGIN { d = ($1) - ($2); exit !(d * d < 1e-10 * ($2) * ($2)) }" || fail "$3: $1 is not near $2"; }
oracle write --records 11
run=("$neap" train --model mlp-4 --data csv:data.csv,test=data.csv --threads 1 --momentum 0 --weight-decay 0 --lr 0.25 --schedule constant --shuffle off
  --seed 5 --init first.safetensors --epochs 3)

# 11 records: batches of 6 leave 5, which are micro-batches of 3 and 2, of 2, 2 and 1, or one of 5; batches of 8 leave 3 of 4. A
# quick pass tries each of them in one way.
ways=("" "--class-weights balanced" "--mixup 0.4") turn=0
for parts in "6 6" "6 3" "6 2" "8 4" "16 16" "16 4"; do
  read -r batch micro <<<"$parts"
  chosen=("${ways[@]}")
  [ -z "${NEAP_QUICK:-}" ] || chosen=("${ways[turn++ % 3]}")
  for more in "${chosen[@]}"; do
    weighted=()
    [ "$more" != "--class-weights balanced" ] || weighted=(--balanced)
    [ "$more" != "--mixup 0.4" ] || weighted=(--mixup 0.4)
    expect 0 "${run[@]}" --batch "$batch" --micro-batch "$micro" --drop-last off $more --out run --metrics a.jsonl --force --json
    oracle compare a.jsonl run/weights-*.safetensors --batch "$batch" --keep-last "${weighted[@]}" || fail "batches of $parts with '$more'"
  done
done
expect 0 "${run[@]}" --batch 6 --out run --metrics a.jsonl --force --json
same "$(field steps)" 3 "the steps without the short ones"
oracle compare a.jsonl run/weights-*.safetensors --batch 6 || fail "batches without those that are left over"

# Within the least budget, and after going on, in the middle of an epoch too.
expect 0 "${run[@]}" --batch 6 --micro-batch 3 --drop-last off --out run --force --json
weights=$(field weights_sha256)
same "$(field steps)" 6 "the steps with the short ones"
expect 0 "${run[@]}" --batch 6 --micro-batch 3 --drop-last off --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
without=("${run[@]:0:${#run[@]}-2}")
for steps in 2 3; do
  expect 0 "${without[@]}" --steps $steps --batch 6 --micro-batch 3 --drop-last off --out part --force --json
  expect 0 "$neap" train --resume part --epochs 3 --json
  same "$(field weights_sha256)" "$weights" "the weights after going on from step $steps"
done
expect 2 "$neap" train --resume part --epochs 4 --drop-last on
says drop

# Fewer records than a batch are a batch of their number, with batch norms, values as labels and tokens.
python3 -c '
import random
random.seed(2)
print("a,b,label", *(f"{random.random()},{random.random()},{random.random()}" for _ in range(10)), sep="\n")' >values.csv
seq -s ' ' 1 400 >text
for case in "wrn-10-1 synthetic:images=10" "mlp-8 csv:values.csv,test=values.csv,task=regression" "gpt-1x32x2 text:text"; do
  read -r model data <<<"$case"
  run=("$neap" train --model "$model" --data "$data" --threads 1 --epochs 2 --json)
  [ "$model" != gpt-1x32x2 ] || run+=(--length 16)
  expect 0 "${run[@]}" --batch 4 --drop-last off --out first --force
  expect 0 "$neap" evaluate first --json
  records=10
  [ "$model" != gpt-1x32x2 ] || records=$(sed -n 's/.*"training_images": \([0-9]*\).*/\1/p' first/state.json)
  # Memory formats, which the whole batch chooses, may change the last bits.
  expect 0 "${run[@]}" --batch "$records"
  loss=$(field loss) tested=$(field test_loss)
  expect 0 "${run[@]}" --batch 100 --drop-last off
  near "$(field loss)" "$loss" "the loss of $model with fewer records than a batch"
  near "$(field test_loss)" "$tested" "the held-out loss of $model"
  expect 2 "${run[@]}" --batch 100
  says "training records"
done
expect 2 "$neap" train --model dynamicconv-32 --data synthetic --drop-last off --steps 1
says "--drop-last"
