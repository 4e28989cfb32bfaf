# The best evaluation of a run: its weights, and an end where nothing better comes. The metrics say which it is.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
run=("$neap" train --model mlp-32 --data synthetic:images=320 --batch 32 --threads 1 --schedule constant --optimizer adamw --lr 0.003)
expect 0 "${run[@]}" --epochs 12 --metrics whole.jsonl --out whole --keep-best --json
# best METRIC PATIENCE: step and value of the best evaluation, and the epoch after which patience is at its end.
cat >best.py <<'PY'
import json, sys
key, patience = sys.argv[2], int(sys.argv[3])
best = end = None
epochs = [d for d in map(json.loads, open(sys.argv[1])) if key in d]
for n, d in enumerate(epochs, 1):
    if best is None or (d[key] > best[key] if key == "test_accuracy" else d[key] < best[key]):
        best, at = d, n
    if n - at >= patience and end is None:
        end = n
print(best["step"], best[key], end or len(epochs))
PY
read -r step value end <<<"$(python3 best.py whole.jsonl test_accuracy 2)"
same "$(field best_step)" "$step" "the best step"
[ "$step" -lt 120 ] && [ "$end" -lt 12 ] || fail "the last epoch is the best: this test sees nothing"
python3 -c "import sys; sys.exit(abs($(field best_test_accuracy) - $value) > 1e-8)" || fail "the best accuracy"
same "$(ls whole | grep -c '^best-.*safetensors$')" 1 "files of best weights"
last=$(field weights_sha256)
expect 0 "$neap" evaluate whole --json
same "$(field weights_sha256)" "$last" "the last weights"
expect 0 "$neap" evaluate whole --best --json
same "$(field step)" "$step" "the step of the best weights"
accuracy=$(field test_accuracy) weights=$(field weights_sha256)
expect 0 "$neap" predict whole --best --data synthetic:images=320 -o best.npy --json
same "$(field accuracy)" "$accuracy" "the accuracy of predictions"
expect 0 "$neap" export whole --best -o best.onnx
expect 0 "$neap" export whole -o last.onnx
! cmp -s best.onnx last.onnx || fail "--best exports the last weights"
expect 0 "${run[@]}" --steps "$step" --out short --json
same "$(field weights_sha256)" "$weights" "the best weights, and those of a run that ends there"
expect 0 "$neap" export short -o short.onnx
cmp short.onnx best.onnx || fail "the best weights are exported as others"

# A run that was stopped knows the best before; one that has lost its patience ends, and goes on with more of it.
expect 0 "${run[@]}" --epochs 5 --out part --keep-best
expect 0 "$neap" train --resume part --epochs 12 --json
same "$(field best_step)" "$step" "the best step of a run that went on"
same "$(field weights_sha256)" "$last" "the weights of a run that went on"
expect 0 "$neap" evaluate part --best --json
same "$(field weights_sha256)" "$weights" "the best weights of a run that went on"
expect 0 "${run[@]}" --epochs 12 --patience 2 --out patient --keep-best --json
same "$(field steps)" $((end * 10)) "where patience ends"
same "$(field stopped_early)" true "whether it ended early"
expect 0 "$neap" train --resume patient --json
same "$(field steps)" $((end * 10)) "where it still ends"
expect 0 "$neap" train --resume patient --patience 12
grep -q "^best          step $step, test accuracy" out || fail "$(cat out)"
expect 0 "$neap" evaluate patient --best --json
same "$(field weights_sha256)" "$weights" "the best weights"

# The least loss is the best, for values and for text.
python3 -c '
import random
random.seed(3)
print("a,b,label")
for i in range(200):
    a, b = random.random(), random.random()
    print(f"{a},{b},{a * b + random.gauss(0, 0.3)}")' >table.csv
expect 0 "$neap" train --model mlp-32 --data csv:table.csv,task=regression --batch 20 --threads 1 --epochs 10 --optimizer adamw --lr 0.02 \
  --schedule constant --metrics values.jsonl --json --patience 3
read -r step value end <<<"$(python3 best.py values.jsonl test_loss 3)"
same "$(field best_step)" "$step" "the best step by loss"
same "$(field steps)" "$((end * 9))" "where patience with a loss ends"
for _ in $(seq 60); do echo 'the quick brown fox jumps over the lazy dog'; done >text.txt
expect 0 "$neap" train --model char-lstm-1x8 --data text:text.txt --length 8 --batch 16 --threads 1 --epochs 2 --out text --keep-best --json
has best_test_loss
expect 0 "$neap" generate text --best --tokens 5

# What does nothing is refused.
expect 1 "$neap" evaluate elsewhere --best
expect 0 "${run[@]}" --epochs 1 --out plain
expect 2 "$neap" evaluate plain --best
says "--keep-best"
expect 2 "${run[@]}" --epochs 1 --keep-best
says "--out"
expect 2 "${run[@]}" --epochs 1 --patience 2 --evaluate off
says "--evaluate"
expect 2 "${run[@]}" --epochs 1 --patience 0
says "patience"
expect 0 "${run[@]}" --epochs 1 --out whole --force
[ -z "$(ls whole | grep '^best-')" ] || fail "the best weights of another run stay"
