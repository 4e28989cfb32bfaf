# What neap evaluate says by class, beside the predictions record by record.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
python3 - <<'PY'
import random
random.seed(4)
names = ["cat", "dog", "cow", "elephant"]
for part, count in (("train", 120), ("test", 57)): # the last batch is not whole
    with open(f"{part}.csv", "w") as file:
        print("x,y,label", file=file)
        for i in range(count):
            k = random.choice([0, 0, 0, 1, 1, 2, 3])
            print(f"{random.gauss(k % 2, 0.6)},{random.gauss(k // 2, 0.6)},{names[k]}", file=file)
PY
data=csv:train.csv,test=test.csv
expect 0 "$neap" train --model mlp-16 --data $data --batch 10 --threads 1 --epochs 8 --optimizer adamw --lr 0.02 --out run
expect 0 "$neap" predict run --data $data -o predicted.csv
expect 0 "$neap" evaluate run --json
cp out evaluation.json

# Without data, those of the run are taken, and what evaluate takes of them: the test part, even one that was held out.
expect 0 "$neap" predict run -o own.csv
cmp own.csv predicted.csv || fail "the run's own data predict something else"
expect 0 "$neap" train --model mlp-16 --data csv:train.csv --batch 10 --threads 1 --epochs 2 --out held
expect 0 "$neap" evaluate held --json
accuracy=$(field test_accuracy) records=$(field records)
(mkdir far && cd far && expect 0 "$neap" predict ../held -o own.csv --json && cp out ..)
same "$(field accuracy) $(field records)" "$accuracy $records" "the run's held-out part"
case $(field data) in csv:*/train.csv) ;; *) fail "the data are called $(field data)" ;; esac
expect 0 "$neap" predict held --train -o own.csv --json
same "$(field records)" $((120 - records)) "the records of the run's training part"
mv train.csv away.csv
expect 1 "$neap" predict held -o own.csv
says "train.csv: cannot be opened"
mv away.csv train.csv
cat >check.py <<'PY'
import csv, json, sys
e = json.load(open("evaluation.json"))
names = [c["name"] for c in e["classes"]]
assert sorted(names) == ["cat", "cow", "dog", "elephant"], names
was = [row["label"] for row in csv.DictReader(open("test.csv"))]
rows = list(csv.DictReader(open("predicted.csv")))
key = next(k for k in rows[0] if all(r[k] in names for r in rows))
said = [r[key] for r in rows]
assert len(was) == len(said) == 57 and len(set(said)) > 2
matrix = [[sum(w == a and s == b for w, s in zip(was, said)) for b in names] for a in names]
assert e["confusion"] == matrix, (e["confusion"], matrix)
right = sum(matrix[k][k] for k in range(4))
assert abs(e["test_accuracy"] - right / 57) < 1e-12
for k, c in enumerate(e["classes"]):
    records, predicted = sum(matrix[k]), sum(row[k] for row in matrix)
    assert (c["records"], c["predicted"], c["right"]) == (records, predicted, matrix[k][k])
    precision, recall = matrix[k][k] / max(1, predicted), matrix[k][k] / records
    f1 = 2 * precision * recall / max(1e-300, precision + recall)
    assert max(abs(c["precision"] - precision), abs(c["recall"] - recall), abs(c["f1"] - f1)) < 1e-12, c
PY
python3 check.py || fail "$(cat evaluation.json)"
expect 0 "$neap" evaluate run
grep -q "^class .*precision" out && grep -q "^elephant" out && grep -q "^mean" out || fail "$(cat out)"
expect 0 "$neap" evaluate run --batch 57 --json
same "$(field confusion)" "$("$json_field" confusion <evaluation.json)" "the confusions with another batch"

# Values and texts have no classes.
python3 -c '
print("a,label")
for i in range(50): print(f"{i},{2 * i}")' >values.csv
expect 0 "$neap" train --model mlp-8 --data csv:values.csv,task=regression --batch 9 --threads 1 --epochs 1 --out values
expect 0 "$neap" evaluate values --json
! grep -q confusion out || fail "values have confusions"
for _ in $(seq 20); do echo 'the quick brown fox'; done >text.txt
expect 0 "$neap" train --model char-lstm-1x8 --data text:text.txt --length 8 --batch 4 --threads 1 --steps 1 --out text
expect 0 "$neap" evaluate text --json
! grep -q confusion out || fail "text has confusions"
