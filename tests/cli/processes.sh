# Several processes give the bits of one; one of them that dies or is told to stop ends all; any number goes on.
source "$(dirname "$0")/common.bash"

# The whole of a run in one process, in 8 micro-batches.
run=("$neap" train --model wrn-10-1 --data synthetic:images=250 --batch 16 --micro-batch 2 --threads 1 --seed 3 --classes 10)
# The last step of an epoch has 10 records: micro-batches of 4, 3 and 3, and a process without one. A quick pass tries each case
# on one number of processes.
next=2
for options in "--steps 4" "--epochs 1 --drop-last off --micro-batch 4" "--steps 3 --optimizer adamw --clip-norm 0.5 --precision bf16" \
  "--steps 3 --sparse 0.4 --budget min --planner evict"; do
  read -ra given <<<"$options"
  expect 0 "${run[@]}" "${given[@]}" --json
  weights=$(field weights_sha256) loss=$(field loss) accuracy=$(field test_accuracy)
  numbers=(2 4)
  [ -z "${NEAP_QUICK:-}" ] || numbers=("$next") next=$((6 - next))
  for processes in "${numbers[@]}"; do
    expect 0 "${run[@]}" "${given[@]}" --processes "$processes" --json
    same "$(field weights_sha256)" "$weights" "weights of $processes processes ($options)"
    same "$(field loss)" "$loss" "the loss of $processes processes ($options)"
    same "$(field test_accuracy)" "$accuracy" "the accuracy of $processes processes ($options)"
    same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak"
    [[ $options != *drop-last* ]] || continue
    expect 0 "${run[@]}" "${given[@]}" --processes "$processes" --shard all --json
    same "$(field weights_sha256)" "$weights" "weights of $processes processes that share weights ($options)"
    same "$(field test_accuracy)" "$accuracy" "the accuracy of $processes processes that share weights ($options)"
    same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak where weights are shared"
  done
done
expect 1 "${run[@]}" --epochs 1 --drop-last off --micro-batch 4 --processes 2 --shard all
says "all micro-batches must have one size"

# A run goes on with weights in shares, or whole.
expect 0 "${run[@]}" --steps 6 --schedule constant --evaluate off --json
six=$(field weights_sha256)
expect 0 "${run[@]}" --steps 3 --schedule constant --evaluate off --processes 4 --shard all --out shared
expect 0 "$neap" train --resume shared --steps 6 --processes 2 --shard states --json
same "$(field weights_sha256)" "$six" "weights of a run that began with shares of weights"

# A run goes on with its micro-batches, whatever divided it, and with no others.
part=("$neap" train "${small[@]}" --data synthetic:images=64 --evaluate off --schedule constant)
for began in 2 4; do
  expect 0 "${part[@]}" --processes "$began" --steps 4 --json
  whole=$(field weights_sha256)
  for goes_on in 1 2; do
    expect 0 "${part[@]}" --processes "$began" --steps 2 --out "began$began-$goes_on"
    expect 0 "$neap" train --resume "began$began-$goes_on" --processes "$goes_on" --steps 4 --json
    same "$(field weights_sha256)" "$whole" "weights of $began processes that $goes_on went on with"
    same "$(field micro_batches)" "$began" "micro-batches"
  done
done
expect 0 "${part[@]}" --processes 2 --steps 2 --out two
expect 2 "$neap" train --resume two --micro-batch 8 --steps 4
says "was made with micro_batches 2, but this run has (none)"
expect 2 "$neap" train --resume two --processes 4 --steps 4
says "a batch of 8 has 2 of them, which do not divide among 4 processes"

# What is planned for one of several processes is what it takes and sends.
step=(--model wrn-10-1 --batch 16 --micro-batch 2 --threads 1 --image 3x32x32 --classes 10)
ways=("4 --shard states --budget max" "2 --shard all --budget max" "4 --shard all --budget min --planner evict")
[ -n "${NEAP_QUICK:-}" ] || # a quick pass tries each way with one number
  ways+=("2 --shard states --budget max" "4 --shard all --budget max" "2 --shard all --budget min --planner evict")
for way in "${ways[@]}"; do
  read -ra sharing <<<"--processes $way"
  expect 0 "${run[@]}" "${sharing[@]}" --steps 2 --evaluate off --json
  peak=$(field highest_peak_bytes) sent=$(field sent_bytes)
  expect 0 "$neap" plan "${step[@]}" "${sharing[@]}" --json
  same "$(field peak_bytes) $(field sent_bytes_per_step)" "$peak $sent" "peak and bytes sent with ${sharing[*]}, as planned"
done
expect 0 "$neap" plan "${step[@]}" --processes 4 --budget min "${at_once[@]}" --json
whole=$(field peak_bytes) resident=$(field resident_bytes)
expect 0 "$neap" plan "${step[@]}" --processes 4 --budget min "${at_once[@]}" --shard all --json
# Workspaces differ from processor to processor: the peak falls by nine tenths of what rests no more, or by more.
shared=$((resident - $(field resident_bytes)))
[ $((whole - $(field peak_bytes))) -ge $((shared * 9 / 10)) ] && [ "$shared" -gt $((resident / 2)) ] || fail "shares of weights take no less"
expect 0 "$neap" plan "${step[@]}" --processes 4 --bandwidth 1GB --latency 0.001
grep -q "each of 4 processes: 2 of 8 micro-batches of 2; it sends" out || fail "the plan does not tell what is sent: $(cat out)"
expect 2 "$neap" plan "${step[@]}" --processes 3
says "must divide"
expect 2 "$neap" plan "${step[@]}" --processes 2 --planner all
says "one planner"
expect 0 "$neap" plan "${step[@]}" --processes 2 --latency 0 --json
awk -v a="$(field exchange_seconds_per_step)" -v b="$(field sent_bytes_per_step)" 'BEGIN { exit !(a * 125e6 - b < 1 && b - a * 125e6 < 1) }' ||
  fail "a latency of 0 is not 0"
expect 2 "$neap" plan --processes 2
expect 2 "$neap" plan "${step[@]}" --shard all
says "--shard all: a single process"
expect 2 "$neap" train --model wrn-10-1 --data synthetic --shard all
says "--shard all: a single process"
expect 2 "$neap" plan "${step[@]}" --bandwidth 1GB
says "without --processes"

# A budget of all processes together is divided: the same plan, bytes and weights; a checkpoint keeps the part.
part=1300000
for processes in 1 2; do
  expect 0 "$neap" plan "${step[@]}" --processes $processes --budget $((2 * part / processes)) --json
  figures=$(field peak_bytes) budget=$(field budget_bytes)
  expect 0 "$neap" plan "${step[@]}" --processes $processes --total-budget $((2 * part)) --json
  same "$(field peak_bytes) $(field budget_bytes)" "$figures $budget" "the plan of a part of $processes"
done
expect 0 "${run[@]}" --steps 2 --schedule constant --evaluate off --processes 2 --budget $part --json
figures="$(field planned_peak_bytes) $(field budget_bytes) $(field weights_sha256)"
expect 0 "${run[@]}" --steps 2 --schedule constant --evaluate off --processes 2 --total-budget $((2 * part)) --out total --json
same "$(field planned_peak_bytes) $(field budget_bytes) $(field weights_sha256)" "$figures" "a run of a total budget"
grep -q "\"--budget\": \"$part\"" total/command.json || fail "the checkpoint does not keep the budget of a process"
! grep -q "total-budget" total/command.json || fail "the checkpoint keeps the budget of all processes"
expect 0 "$neap" train --resume total --steps 3 --json
same "$(field budget_bytes)" $part "the budget of the run that goes on"
expect 0 "$neap" train --resume total --steps 4 --processes 4 --total-budget 40MB --json
same "$(field budget_bytes)" 10000000 "the budget that is given anew"
expect 0 "${run[@]}" --steps 1 --total-budget 40MB --processes 2 --show-config
grep -q "^total-budget: 40000000 " out || fail "the settings lack the total budget"
expect 3 "${run[@]}" --steps 2 --processes 2 --planner evict --total-budget 1KB
says "neap: --total-budget 1KB: "
smallest=$(sed -n 's/.*the smallest that can: --total-budget \([0-9]*\).*/\1/p' err)
expect 0 "${run[@]}" --steps 1 --evaluate off --processes 2 --planner evict --total-budget "$smallest" --json
expect 3 "$neap" plan "${step[@]}" --processes 2 --planner evict --budget 500
least=$(sed -n 's/.*the smallest that can: --budget \([0-9]*\).*/\1/p' err)
expect 3 "$neap" plan "${step[@]}" --processes 2 --planner evict --total-budget 1KB
says "the smallest that can: --total-budget $((2 * least)) "
while read -r words options; do
  read -ra other <<<"$options"
  expect 2 "${run[@]}" --steps 2 --total-budget 40MB "${other[@]}"
  says "${words//_/ }"
done <<'END'
--budget_and_--total-budget:_give_one_of_them --processes 2 --budget 20MB
--process-budget_and_--total-budget:_give_one_of_them --process-budget 80MB
a_number_of_bytes_above_0_is_needed --total-budget 50%
END
expect 2 "$neap" plan "${step[@]}" --processes 2 --total-budget 40MB --budget 20MB
says "--total-budget and --budget: give one of them"
expect 2 "$neap" plan "${step[@]}" --pipeline 2 --total-budget 40MB
says "give --budget, that of a rank"
expect 2 "$neap" plan --model wrn-10-1 --batch 16 --profile --total-budget 40MB
says "--total-budget 40MB has no effect"

expect 2 "$neap" plan "${step[@]}" --processes 2 --bandwidth 0
says "--bandwidth 0: a number of bytes above 0 is needed"
for other in "--shard all" "--ema 0.9" "--sparse 0.5" "--base-on-disk always"; do
  read -ra given_too <<<"$other"
  expect 2 "${run[@]}" --steps 2 --processes 2 --pipeline 2 "${given_too[@]}"
  says "--pipeline: a pipeline does not take ${other% 0.*}"
done
divided=("$neap" train --model wrn-10-1 --data synthetic:images=250 --batch 16 --steps 1 --evaluate off)
expect 0 "${divided[@]}" --processes 2 --out divided
processors=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
half=$((processors > 1 ? processors / 2 : 1))
grep -q "\"--threads\": \"$half\"" divided/command.json || fail "other threads are kept: $(cat divided/command.json)"

# Under a launcher, where there is one.
for mpi in openmpi mpich; do
  [ -e "$build/libneap_$mpi.so" ] && [ -n "$(command -v mpirun.$mpi)" ] || continue
  launch=(env ASAN_OPTIONS=detect_leaks=0 mpirun.$mpi) # an MPI keeps memory of its own
  [ $mpi = mpich ] || launch+=(--allow-run-as-root --oversubscribe)
  expect 0 "${launch[@]}" -n 2 "${run[@]}" "${given[@]}" --json
  same "$(field weights_sha256)" "$weights" "weights of two processes of $mpi"
  expect 0 "${launch[@]}" -n 2 "${run[@]}" "${given[@]}" --shard all --json
  same "$(field weights_sha256)" "$weights" "weights of two processes of $mpi that share weights"
  expect 0 "${launch[@]}" -n 2 "${run[@]}" --steps 1 --evaluate off --total-budget 40MB --json
  same "$(field budget_bytes)" 20000000 "the part of each of two processes of $mpi"
  expect 2 "${launch[@]}" -n 2 "${run[@]}" --steps 2 --processes 2
  says "a launcher has already started 2 processes"
  expect 0 "${launch[@]}" -n 2 "${run[@]}" --show-config
  same "$(grep -c "^model: " out)" 1 "the times that two processes of $mpi print the settings"
  # A message names threads without processors of their own; without --threads each rank has its part, which a run keeps.
  [ "$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)" -gt 1 ] || continue
  expect 0 "${launch[@]}" --bind-to core -n 2 "${run[@]}" --steps 1 --evaluate off --threads "$processors" --json
  grep -q "rank 0: its launcher binds it to [12] of $processors processors, where it runs $processors threads" err ||
    fail "it is not told that $mpi binds ranks: $(cat err)"
  expect 0 "${launch[@]}" --bind-to none -n 2 "${divided[@]}" --out divided$mpi
  grep -q "\"--threads\": \"$half\"" divided$mpi/command.json || fail "$mpi: $(cat divided$mpi/command.json)"
  ! grep -q "binds it" err || fail "it is told that $mpi binds ranks, which it does not: $(cat err)"
done

# A process that is killed ends all; the checkpoint goes on in any number.
expect 0 "${run[@]}" --steps 60 --evaluate off --json
weights=$(field weights_sha256)
for signal in KILL TERM; do
  rm -rf out
  "${run[@]}" --steps 60 --evaluate off --processes 4 --out run$signal --checkpoint-every 2 >/dev/null 2>err &
  running=$!
  for _ in $(seq 600); do [ ! -e run$signal/command.json ] || break; sleep 0.1; done
  kill -$signal "$(pgrep -P $running | sed -n 3p)"
  status=0
  wait $running || status=$?
  same $status $([ $signal = KILL ] && echo 137 || echo 130) "the exit status after SIG$signal to one process"
  [ "$(grep -c "^neap: " err)" = 1 ] || fail "it is not told once why all have ended"
  expect 0 "$neap" train --resume run$signal --processes $([ $signal = KILL ] && echo 2 || echo 1) --json
  same "$(field weights_sha256)" "$weights" "weights of the run that goes on after SIG$signal"
done

# The largest batch is not looked for; no message says that none fits.
expect 3 "${run[@]}" --steps 2 --processes 2 "${at_once[@]}" --budget 1KB --json
same "$(field largest_batch)" null "the largest batch of two processes"
! grep -q "no batch" err || fail "it is told that no batch fits"

# A wrong option is reported once.
while read -r status words options; do
  read -ra given <<<"$options"
  expect "$status" "${run[@]}" --steps 2 "${given[@]}"
  says "${words//_/ }"
  [ "$(grep -c "^neap: " err)" = 1 ] || fail "it is told $(grep -c "^neap: " err) times that $options is wrong"
done <<'END'
2 divide_among_3_processes --processes 3
1 is_missing --processes 2 --data cifar10:nowhere
3 the_smallest_that_can --processes 2 --planner evict --budget 1KB
2 --processes --processes 0
END

# A budget of each process holds what reading a large variable takes, too: it is met, or refused before the first step.
python3 -c "import sys; sys.stdout.buffer.write(b''.join((i * 7 % 256).to_bytes(2, 'little') for i in range(4000)))" >ids.bin
wide=("$neap" train --model llama-1x64x2x2 --classes 60000 --optimizer adamw --micro-batch 1 --batch 2 --length 8 --threads 1 --data tokens:ids.bin,type=u16
  --steps 1 --evaluate off --processes 2 --json)
for shard in states all; do
  expect 3 "${wide[@]}" --shard $shard --process-budget 40MB
  budget=$(field smallest_budget_bytes)
  for _ in 1 2 3 4; do
    "${wide[@]}" --shard $shard --process-budget "$budget" >out 2>err && break
    ! grep -q "in a step" err || fail "a process took more than its budget in a step: $(cat err)"
    budget=$(field smallest_budget_bytes)
  done
  [ "$(field process_peak_bytes)" -le "$budget" ] || fail "a process took $(field process_peak_bytes) of $budget bytes"
done
