# neap plan --pipeline: a table of ways; ours is no slower than any that fits and shares no memory; a budget that none meets names one that is met.
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
assert all(ours["step_seconds"] <= w["step_seconds"] for w in ways if w["fits"] and w["shared_bytes"] == 0)
assert all((w["shared_bytes"] > 0) == (w["way"] == "roundpipe") for w in ways)
assert sum(len(r["tasks"]) for r in ours["schedule"]["ranks"]) == len(ours["schedule"]["parts"]) * ours["micro_batches"]
P
expect 3 "$neap" plan "${step[@]}" --budget 1000 --json
smallest=$(field smallest_budget_bytes)
says "neap: --pipeline 2: by this estimate no way meets the budget; one needs about $smallest bytes a rank"
expect 0 "$neap" plan "${step[@]}" --budget "$smallest"
expect 2 "$neap" plan "${step[@]}" --processes 3
says "must be a multiple of --pipeline 2"
expect 2 "$neap" plan "${step[@]}" --processes 6
says "give a multiple of 3"
expect 0 "$neap" plan --model wrn-10-1 --batch 4 --threads 1 --pipeline 2
grep "^neap " out >half
expect 0 "$neap" plan "${step[@]}" --processes 4
same "$(grep "^neap " out)" "$(cat half)" "the row of one of two pipelines"
for options in "--budget available" "--budget 50%" "--time-limit 1" "--planner evict" "--shard all"; do
  read -ra given <<<"$options"
  expect 2 "$neap" plan "${step[@]}" "${given[@]}"
done

# A run of a pipeline has the bits of one process, in every family that is a chain of blocks; planned bytes are those measured.
for _ in $(seq 400); do echo "a text of few words, $RANDOM of them"; done >text.txt
text=(--data text:text.txt --length 16 --batch 8 --micro-batch 2)
divisions=("2 2" "4 4" "4 2") turn=0 # a quick pass tries each case with one of them
while read -r model options; do
  read -ra given <<<"$options"
  run=("$neap" train --model "$model" --threads 1 --seed 3 --steps 3 "${given[@]}")
  [[ $options == *synthetic* ]] || run+=("${text[@]}")
  expect 0 "${run[@]}" --json
  weights=$(field weights_sha256) loss=$(field loss) test_loss=$(field test_loss)
  chosen=("${divisions[@]}")
  [ -z "${NEAP_QUICK:-}" ] || chosen=("${divisions[turn++ % 3]}")
  for divided in "${chosen[@]}"; do
    read -r ranks stages <<<"$divided"
    what="of a pipeline of $stages stages on $ranks ranks: $model $options"
    expect 0 "${run[@]}" --processes "$ranks" --pipeline "$stages" --json
    same "$(field weights_sha256)" "$weights" "weights $what"
    same "$(field loss)" "$loss" "the loss $what"
    same "$(field test_loss)" "$test_loss" "the test loss $what"
    same "$(field measured_peak_bytes)" "$(field planned_peak_bytes)" "the measured peak $what"
  done
done <<'END'
gpt-4x32x2 --optimizer adamw --clip-norm 0.5 --dropout 0.1
gpt-4x32x2 --lora 4 --budget min
gpt-4x32x2 --optimizer adam --budget 70%
llama-4x32x4x2 --precision bf16 --master --budget max
bert-4x32x2 --optimizer lion --shuffle off
preresnet-20 --data synthetic:images=200 --batch 8 --micro-batch 1 --classes 10
END

# It goes on in one process, and a run of one process goes on as a pipeline; a wrong option is reported once.
run=("$neap" train --model gpt-4x32x2 --threads 1 --seed 3 "${text[@]}" --schedule constant --evaluate off)
expect 0 "${run[@]}" --steps 6 --json
six=$(field weights_sha256)
expect 0 "${run[@]}" --steps 3 --processes 3 --pipeline 3 --out piped
expect 0 "$neap" train --resume piped --steps 6 --json
! grep -q "same kernels" err || fail "the kernels of a pipeline are told as others"
same "$(field weights_sha256)" "$six" "weights of a run that began as a pipeline"
expect 0 "${run[@]}" --steps 3 --processes 4 --pipeline 2 --out alone
expect 0 "$neap" train --resume alone --steps 6 --processes 2 --pipeline 2 --json
same "$(field weights_sha256)" "$six" "weights of a run that went on as a pipeline"
while read -r status words options; do
  read -ra given <<<"$options"
  expect "$status" "${run[@]}" --steps 2 "${given[@]}"
  says "${words//_/ }"
  [ "$(grep -c "^neap: " err)" = 1 ] || fail "it is told $(grep -c "^neap: " err) times that $options is wrong"
done <<'END'
2 or_a_multiple_of_them_(got_1) --pipeline 2
2 or_a_multiple_of_them_(got_3) --pipeline 2 --processes 3
2 3_pipelines --pipeline 2 --processes 6 --micro-batch 1
2 needs_2_micro-batches --pipeline 2 --processes 2 --micro-batch 8
2 (got_2_for_2) --pipeline 2 --processes 4 --micro-batch 4
2 the_ways_are_gpipe,_1f1b --pipeline 2 --processes 2 --pipeline-way no
1 blocks,_and_each_rank_needs_one;_give_--pipeline --pipeline 32 --processes 32 --batch 64
3 the_smallest_that_can --pipeline 2 --processes 2 --planner evict --budget 1KB
END
two=("${run[@]}" --steps 2 --processes 2 --pipeline 2 --planner evict)
expect 3 "${two[@]}" --budget 1KB --json
smallest=$(field smallest_budget_bytes)
expect 0 "${two[@]}" --budget "$smallest" --json
expect 0 "${two[@]}" --budget min --json
same "$(field highest_peak_bytes)" "$smallest" "the peak of the smallest budget"
same "$(field budget_bytes)" "$smallest" "the budget of min, that of the rank that needs the most"

# A budget of the process that is named is met.
expect 3 "${two[@]}" --process-budget 1MB --json
says "a process budget of 1000000 bytes is too small"
expect 0 "${two[@]}" --process-budget "$(field smallest_budget_bytes)" --json
lower=($((smallest - 64)) $((smallest * 9 / 10)) $((smallest * 3 / 4)))
[ -z "${NEAP_QUICK:-}" ] || lower=($((smallest * 3 / 4)))
for less in "${lower[@]}"; do
  expect 3 "${two[@]}" --budget "$less" --json
  same "$(field smallest_budget_bytes)" "$smallest" "the smallest budget beside $less"
done

# An evaluation that needs predictions is refused before the first step.
{ echo a,b,y; for i in $(seq 40); do echo "$i,$((i % 7)),$((i * 2))"; done; } >values.csv
values=("$neap" train --model mlp-8x8x8 --data csv:values.csv,task=regression --batch 8 --micro-batch 4 --steps 2 --threads 1 --processes 2 --pipeline 2)
expect 1 "${values[@]}"
says "evaluations of values need predictions"
expect 0 "${values[@]}" --evaluate off

# What only rank 0 finds is told once, with its rank once.
expect 1 "${run[@]}" --data text:missing.txt --steps 2 --processes 2
says "rank 0: missing.txt"
! grep -q "rank 1: rank" err || fail "two ranks are named: $(cat err)"
