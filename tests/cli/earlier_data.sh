# Runs that began before tables were read in double and pictures upright go on as they began: the weights and answers are
# those of the program that began them (tests/cli/earlier-data, with portable bits).
source "$(dirname "$0")/common.bash"

cp -r "$source/tests/cli/earlier-data" . && cd earlier-data
options=(--model mlp-4 --bits portable --threads 1 --schedule constant --lr 0.1 --steps 8)
while read -r kind data asked batch digest; do
  unseal "$kind-run" # its command was shortened
  cp "$kind-run/data.json" before.json
  expect 0 "$neap" train --resume "$kind-run" "${options[@]}" --data "$data" --batch "$batch" --out "$kind-run" --json
  same "$(field weights_sha256)" "$digest" "$kind: the weights after 8 steps"
  cmp before.json "$kind-run/data.json" || fail "$kind: how records are read has changed"
  expect 0 "$neap" predict "$kind-run" --data "$asked" -o again.csv
  cmp again.csv "$kind-answers.csv" || fail "$kind: other answers"
done <<'RUNS'
table csv:table.csv csv:table.csv 8 bc6367b9e911702d76a6eee180bfcb1b4c884ecdb93175641c4acbd83cca8a7e
pictures images:pictures images:pictures/val 2 3397071862fb8ce6b212ce28d28ae8a5bc0caa3af6b4beed3fa6862febb74c52
RUNS

# A run that begins now reads them otherwise.
expect 1 "$neap" train "${options[@]}" --data csv:table.csv --batch 8
says "table.csv: line 9, column 'x': has no value (got 'None')"
says "line 11, column 'x': '1,5' is not a number"
expect 0 "$neap" train "${options[@]}" --data images:pictures --batch 2 --out now --json
[ "$(field weights_sha256)" != 3397071862fb8ce6b212ce28d28ae8a5bc0caa3af6b4beed3fa6862febb74c52 ] || fail "pictures are not held up"
grep -q '"became": "applied: pictures that are not stored upright", "count": 8' out || fail "$(cat out)"
