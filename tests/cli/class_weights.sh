# Weights of the classes in the training loss, and the norm of the gradients in the metrics.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
python3 - <<'PY'
import random
random.seed(4)
counts = {"cat": 60, "dog": 24, "cow": 12}
rows = [f"{random.gauss(len(k) % 2, 0.7)},{random.gauss(ord(k[0]) % 3, 0.7)},{k}" for k, n in counts.items() for _ in range(n)]
random.shuffle(rows)
open("train.csv", "w").write("\n".join(["x,y,label", *rows, ""]))
open("test.csv", "w").write("\n".join(["x,y,label", *rows[:30], ""]))
# records / (classes * records of the class), as scikit-learn has it
open("balanced.csv", "w").write("# as balanced\n" + "".join(f"{k},{96 / (3 * n)!r}\n" for k, n in counts.items()))
PY
run=("$neap" train --model mlp-16 --data csv:train.csv,test=test.csv --batch 12 --threads 1 --optimizer adamw --lr 0.01)
expect 0 "${run[@]}" --steps 24 --class-weights balanced --out run --metrics whole.jsonl --json
weights=$(field weights_sha256)
python3 - <<'PY' || fail "what the checkpoint has: $(cat run/state.json)"
import json
s = json.load(open("run/state.json"))["settings"]
classes = json.load(open("run/data.json"))["class_names"]
wanted = {"cat": 96 / 180, "dog": 96 / 72, "cow": 96 / 36}
assert all(abs(w - wanted[k]) < 1e-6 for k, w in zip(classes, s["class_weights"])) and len(classes) == 3, s
PY
expect 0 "${run[@]}" --steps 24 --class-weights balanced.csv --json
same "$(field weights_sha256)" "$weights" "weights from a file and by the records"
expect 0 "${run[@]}" --steps 24 --class-weights balanced --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
expect 0 "${run[@]}" --steps 24 --json
[ "$(field weights_sha256)" != "$weights" ] || fail "class weights change nothing"
expect 0 "$neap" evaluate run --json
same "$(field weights_sha256)" "$weights" "the weights of the checkpoint"

# The loss and the gradients are those of the whole batch, whatever the micro-batches.
expect 0 "${run[@]}" --steps 24 --class-weights balanced --gradient-norm --metrics a.jsonl
expect 0 "${run[@]}" --steps 24 --class-weights balanced --gradient-norm --metrics b.jsonl --micro-batch 3
expect 0 "${run[@]}" --steps 24 --class-weights balanced --gradient-norm --metrics c.jsonl --clip-norm 1e9
python3 - <<'PY' || fail "micro-batches: $(head -2 a.jsonl b.jsonl c.jsonl)"
import json
runs = [[json.loads(line) for line in open(f"{name}.jsonl")] for name in "abc"]
plain = [json.loads(line) for line in open("whole.jsonl")]
assert "gradient_norm" not in plain[0]
for a, b, c, p in zip(*runs, plain):
    for key in ("loss", "gradient_norm"):
        assert abs(a[key] - b[key]) < 2e-4 * abs(a[key]) and abs(a[key] - c[key]) < 2e-4 * abs(a[key]), (key, a, b, c)
    assert abs(a["loss"] - p["loss"]) < 1e-5 and a["gradient_norm"] > 0
PY

# A run goes on with the same weights alone.
expect 0 "${run[@]}" --epochs 2 --schedule constant --class-weights balanced.csv --out part
expect 0 "$neap" train --resume part --epochs 3
sed -i 's/^dog,.*/dog,5/' balanced.csv
expect 2 "$neap" train --resume part --epochs 4
says class_weights
expect 2 "$neap" train --resume run --epochs 9 --steps 25
for bad in 'cat,1' 'cat,1\nhorse,2' 'cat,1\ndog,1\ncow,-2' 'cat,1\ndog,1\ncow,1\ncat,2' 'cat'; do
  printf "$bad\n" >bad.csv
  expect 1 "${run[@]}" --steps 1 --class-weights bad.csv
  says bad.csv
done
expect 1 "${run[@]}" --steps 1 --class-weights missing.csv
expect 2 "$neap" train --model gpt-1x16x2 --data synthetic --class-weights balanced --steps 1
says "--class-weights"
expect 2 "$neap" train --model mlp-8 --data csv:train.csv,label=x,task=regression --batch 4 --class-weights balanced --steps 1
says "class weights"
expect 2 "${run[@]}" --steps 1 --gradient-norm
says "--metrics"

# Pixels have classes, too.
expect 0 "$neap" train --model unet-4 --data synthetic:images=2 --batch 1 --image 1x188x188 --threads 1 --steps 2 --class-weights balanced --evaluate off --json

# A missing file is told as what it was given for; a run with a second file goes on from another folder.
expect 1 "${run[@]}" --steps 1 --class-weights none
says "class weights 'none'"
mkdir elsewhere
(cd elsewhere && expect 0 "$neap" train --resume ../run --steps 24 && expect 0 "$neap" evaluate ../run)
