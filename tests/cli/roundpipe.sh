# --pipeline-way roundpipe: processes that share one memory take the parts of a pipeline in turns. The bits are those of one process at every
# budget, resumed, and after a process was killed; what is shared counts once.
source "$(dirname "$0")/common.bash"

for _ in $(seq 400); do echo "a text of few words, $RANDOM of them"; done >text.txt
text=(--data text:text.txt --length 16 --batch 8 --micro-batch 2)
round=(--pipeline-way roundpipe)
divisions=("2 max" "3 min" "2 min" "3 max") turn=0 # a quick pass tries each case with one of them
while read -r model options; do
  read -ra given <<<"$options"
  run=("$neap" train --model "$model" --threads 1 --seed 3 --steps 3 "${given[@]}")
  [[ $options == *synthetic* ]] || run+=("${text[@]}")
  expect 0 "${run[@]}" --json
  weights=$(field weights_sha256) loss=$(field loss) test_loss=$(field test_loss)
  chosen=("${divisions[@]}")
  [ -z "${NEAP_QUICK:-}" ] || chosen=("${divisions[turn++ % 4]}")
  for divided in "${chosen[@]}"; do
    read -r ranks budget <<<"$divided"
    what="of $ranks processes that share memory, --budget $budget: $model $options"
    expect 0 "${run[@]}" --processes "$ranks" --pipeline "$ranks" "${round[@]}" --budget "$budget" --json
    same "$(field weights_sha256)" "$weights" "weights $what"
    same "$(field loss)" "$loss" "the loss $what"
    same "$(field test_loss)" "$test_loss" "the test loss $what"
    same "$(field measured_peak_bytes)" "$(field planned_peak_bytes)" "the measured peak $what"
    same "$(field sent_bytes)" 0 "the bytes sent $what"
    [ "$(field shared_bytes)" -gt 0 ] || fail "nothing is shared $what"
  done
done <<'END'
gpt-4x32x2 --optimizer adamw --clip-norm 0.5 --dropout 0.1
gpt-4x32x2 --lora 4
llama-4x32x4x2 --precision bf16 --master
wrn-10-1 --data synthetic:images=200 --batch 8 --micro-batch 2 --classes 10
mlp-8x8x8 --data synthetic:images=200 --batch 12 --micro-batch 2 --classes 10
END

# What all share counts once in the budget of all: equal parts of it, and what each has alone.
run=("$neap" train --model gpt-4x32x2 --threads 1 --seed 3 "${text[@]}" --schedule constant --evaluate off --planner evict)
two=(--processes 2 --pipeline 2 "${round[@]}")
expect 3 "${run[@]}" --steps 2 "${two[@]}" --budget 1KB --json
smallest=$(field smallest_budget_bytes)
expect 0 "${run[@]}" --steps 2 "${two[@]}" --total-budget $((2 * smallest)) --json
same "$(field budget_bytes)" "$smallest" "the budget of each of two processes"
[ "$(field highest_peak_bytes)" -le "$smallest" ] || fail "a process takes more than its part"
expect 3 "${run[@]}" --steps 2 "${two[@]}" --total-budget $((2 * smallest - 256)) --json
expect 0 "${run[@]}" --steps 2 "${two[@]}" --process-budget 200MB --json
[ "$(python3 -c 'import json,sys; print(json.load(open("out"))["process"]["peak_bytes"])')" -le 200000000 ] || fail "a process takes more than its budget"
expect 0 "${run[@]}" --steps 2 "${two[@]}"
grep -q "^shared .*once in memory" out || fail "it is not told what is shared: $(cat out)"
grep -q "^recomputed  *blocks of stages with an r: +[1-9]" out || fail "it is not told what is recomputed: $(cat out)"
! grep -q "everything was kept" out || fail "it is told that everything was kept: $(cat out)"

# It goes on in one process, and a run of one process goes on so.
expect 0 "${run[@]}" --steps 6 --json
six=$(field weights_sha256)
expect 0 "${run[@]}" --steps 3 --processes 3 --pipeline 3 "${round[@]}" --out rounds
expect 0 "$neap" train --resume rounds --steps 6 --json
same "$(field weights_sha256)" "$six" "weights of a run that began with shared memory"
expect 0 "${run[@]}" --steps 3 --out alone
expect 0 "$neap" train --resume alone --steps 6 "${two[@]}" --json
same "$(field weights_sha256)" "$six" "weights of a run that went on with shared memory"

# A process that is killed ends all; the last checkpoint goes on.
expect 0 "${run[@]}" --steps 60 --json
sixty=$(field weights_sha256)
"${run[@]}" --steps 60 --processes 3 --pipeline 3 "${round[@]}" --out killed --checkpoint-every 2 >/dev/null 2>err &
running=$!
for _ in $(seq 600); do [ ! -e killed/state.json ] || break; sleep 0.1; done
kill -KILL "$(pgrep -P $running | sed -n 2p)"
status=0
wait $running || status=$?
same $status 137 "the exit status after SIGKILL to one process"
[ "$(grep -c "^neap: " err)" = 1 ] || fail "it is not told once why all have ended: $(cat err)"
grep -q "rank [0-2]" err || fail "it is not told which process was killed: $(cat err)"
expect 0 "$neap" train --resume killed "${two[@]}" --json
same "$(field weights_sha256)" "$sixty" "weights of the run that goes on after a process was killed"

# Processes that an MPI starts on this machine share memory, too.
expect 0 "${run[@]}" --steps 2 --json
weights=$(field weights_sha256)
for mpi in openmpi mpich; do
  [ -e "$build/libneap_$mpi.so" ] && [ -n "$(command -v mpirun.$mpi)" ] || continue
  launch=(env ASAN_OPTIONS=detect_leaks=0 mpirun.$mpi) # an MPI keeps memory of its own
  [ $mpi = mpich ] || launch+=(--allow-run-as-root --oversubscribe)
  expect 0 "${launch[@]}" -n 2 "${run[@]}" --steps 2 --pipeline 2 "${round[@]}" --json
  same "$(field weights_sha256)" "$weights" "weights of two processes of $mpi that share memory"
done

# What it does not do is refused by name, once.
while read -r words options; do
  read -ra given <<<"$options"
  expect 2 "${run[@]}" --steps 2 --pipeline-way roundpipe "${given[@]}"
  says "${words//_/ }"
  [ "$(grep -c "^neap: " err)" = 1 ] || fail "it is told $(grep -c "^neap: " err) times that $options is wrong"
done <<'END'
one_pipeline_has_all_processes_(got_4 --pipeline 2 --processes 4
does_nothing_without_--pipeline --processes 2
END
