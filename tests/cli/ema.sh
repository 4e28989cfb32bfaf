# The exponential average of the weights: evaluated, predicted with, and gone on with.
source "$(dirname "$0")/common.bash"

run=("$neap" train --model mlp-16 --data synthetic:images=320 --batch 32 --threads 1 --schedule constant --optimizer adamw --lr 0.01 --ema 0.9)
expect 0 "${run[@]}" --epochs 4 --out run --json
weights=$(field weights_sha256) accuracy=$(field test_accuracy) peak=$(field planned_peak_bytes)
expect 0 "$neap" evaluate run --json
same "$(field test_accuracy)" "$accuracy" "the accuracy of the averages"
same "$(field weights_sha256)" "$weights" "the weights of the checkpoint"
expect 0 "$neap" predict run --data synthetic:images=320 -o run.npy --json
same "$(field accuracy)" "$accuracy" "the accuracy of predictions"
expect 0 "$neap" export run -o run.onnx
if command -v python3 >/dev/null; then
  python3 - run/weights-*.safetensors run.onnx <<'PY' || fail "what was exported is not the average"
import json, struct, sys
data, onnx = open(sys.argv[1], "rb").read(), open(sys.argv[2], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + size])
names = [n for n in header if n + ".average" in header]
def values(name):
    begin, end = header[name]["data_offsets"]
    return data[8 + size + begin : 8 + size + end]
assert names and all(values(n + ".average") in onnx and values(n) not in onnx for n in names), names
PY
fi
expect 0 "${run[@]}" --epochs 4 --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
expect 0 "${run[@]}" --epochs 2 --out part
expect 0 "$neap" train --resume part --epochs 4 --json
same "$(field weights_sha256)" "$weights" "the weights of a run that went on"
expect 2 "$neap" train --resume part --epochs 5 --ema 0.99
says ema
expect 0 "${run[@]}" --epochs 4 --ema 0 --json
[ "$(field planned_peak_bytes)" -lt "$peak" ] || fail "averages take no memory that is planned"

# Weights to begin with are those of the run, not their averages; the averages begin with them.
expect 0 "${run[@]}" --steps 1 --init run --json
expect 1 "${run[@]}" --steps 1 --precision bf16
says "--master"
expect 0 "${run[@]}" --steps 2 --precision bf16 --master --json
expect 1 "${run[@]}" --steps 1 --sparse 0.5 --sparse-layers '*.weight'
says "sparse"
expect 2 "${run[@]}" --steps 1 --ema 1
says "ema 1"
