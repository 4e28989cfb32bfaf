# A learning-rate range test: the losses of a run whose rate rises, and what follows from them.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
model=(--model mlp-64x64 --data synthetic:images=640 --batch 32 --threads 1)
expect 0 "$neap" lr "${model[@]}" --from 1e-5 --to 1 --steps 60 -o points.csv --json
cp out test.json
expect 0 "$neap" train "${model[@]}" --schedule exponential --lr 1e-5 --final-lr 1 --steps 60 --metrics run.jsonl --evaluate off
cat >check.py <<'PY'
import csv, json
t = json.load(open("test.json"))
run = [json.loads(line) for line in open("run.jsonl")]
points = t["points"]
assert 10 < len(points) <= 60 and t["steps"] == len(points)
mean, smoothed = 0, []
for i, (p, r) in enumerate(zip(points, run)):
    wanted = 1e-5 * (1 / 1e-5) ** (i / 59)
    assert abs(p["learning_rate"] / wanted - 1) < 1e-6 and abs(p["learning_rate"] / r["learning_rate"] - 1) < 1e-6
    assert abs(p["loss"] - r["loss"]) < 1e-6 * abs(r["loss"])
    weights = [0.9 ** (i - k) for k in range(i + 1)]
    mean = sum(w * q["loss"] for w, q in zip(weights, points)) / sum(weights)
    assert abs(p["smoothed"] / mean - 1) < 1e-6
    smoothed.append(mean)
assert (len(points) < 60) == t["stopped_early"] == (smoothed[-1] > 4 * min(smoothed))
end = 10
while end < len(points) and smoothed[end] <= 1.1 * min(smoothed[10 : end + 1]):
    end += 1
least = min(range(10, end), key=lambda i: smoothed[i])
best = min(range(10, least), key=lambda i: smoothed[i + 1] - smoothed[i - 1])
assert abs(t["suggested_learning_rate"] / points[best]["learning_rate"] - 1) < 1e-6, (t["suggested_learning_rate"], points[best])
assert t["least_loss_learning_rate"] == points[least]["learning_rate"]
rows = list(csv.DictReader(open("points.csv")))
assert len(rows) == len(points) and all(abs(float(r["loss"]) - p["loss"]) < 1e-6 for r, p in zip(rows, points))
PY
python3 check.py || fail "$(cut -c 1-300 test.json)"
expect 0 "$neap" lr "${model[@]}" --steps 30 -o rates.svg
grep -q "^suggestion" out || fail "$(cat out)"
python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("rates.svg")' || fail "the picture is no XML"

expect 2 "$neap" lr "${model[@]}" --from 2 --to 1
says "--from 2"
expect 2 "$neap" lr "${model[@]}" -o rates.txt
says "rates.txt"
expect 2 "$neap" lr "${model[@]}" --out run
says "--out: unknown option"
expect 2 "$neap" train "${model[@]}" --schedule exponential --steps 2
says "--final-lr"
expect 2 "$neap" train "${model[@]}" --final-lr 2 --steps 2
says "exponential"
expect 3 "$neap" lr "${model[@]}" --budget 100KiB
says "--budget"
