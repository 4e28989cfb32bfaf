# neap plan --pipeline: a table of ways; ours is no slower than any that fits; a budget that none meets names one that is met.
source "$(dirname "$0")/common.bash"

step=(--model wrn-10-1 --batch 8 --threads 1 --pipeline 2)
expect 0 "$neap" plan "${step[@]}"
for way in gpipe 1f1b interleaved breadth-first roundpipe neap; do
  grep -q "^$way " out || fail "no row of $way: $(cat out)"
done
expect 0 "$neap" plan "${step[@]}" --json
python3 - out <<'P' || fail "ours is slower than another way"
import json, sys
ways = json.load(open(sys.argv[1]))["ways"]
ours = [w for w in ways if w["way"] == "neap"][0]
assert all(ours["step_seconds"] <= w["step_seconds"] for w in ways if w["fits"])
assert sum(len(r["tasks"]) for r in ours["schedule"]["ranks"]) == len(ours["schedule"]["parts"]) * ours["micro_batches"]
P
expect 3 "$neap" plan "${step[@]}" --budget 1000 --json
smallest=$(field smallest_budget_bytes)
expect 0 "$neap" plan "${step[@]}" --budget "$smallest"
expect 2 "$neap" plan "${step[@]}" --processes 2
says "not planned together"
for options in "--budget available" "--budget 50%" "--time-limit 1" "--planner evict" "--shard all"; do
  read -ra given <<<"$options"
  expect 2 "$neap" plan "${step[@]}" "${given[@]}"
done
