# The speed of the machine, what processes exchange, and where the time of a step goes; plans use what was measured, with the same bits.
source "$(dirname "$0")/common.bash"
model=(--model wrn-10-1 --batch 8 --threads 1)

# A plan that was saved before anything was measured here, and what training by it gives.
expect 0 "$neap" plan "${model[@]}" --budget 80% --json
usual=$(field base_cost)
expect 0 "${train[@]}" --steps 2 --budget 80% --save-plan plan.json --json
digest=$(field weights_sha256)
[ ! -e cache/neap ] || fail "planning has made a cache"

expect 0 "$neap" bench --threads 1 --json
[ -n "$(field processor)" ] || fail "the processor has no name"
grep -q '"threads": 1' out || fail "one thread was not measured"
! grep -q '"threads": 2' out || fail "more threads were measured than were asked for"
! grep -q '"kinds"' out || fail "there are kernels without a model"
[ -s cache/neap/kernels-1.sqlite ] || fail "nothing was kept"

# Costs are of this machine now. Plans may differ, bits do not; the plan of before is still one.
expect 0 "$neap" plan "${model[@]}" --budget 80% --json
[ "$(field base_cost)" != "$usual" ] || fail "costs are as they were before the machine was measured"
expect 0 "${train[@]}" --steps 2 --budget 80% --json
same "$(field weights_sha256)" "$digest" "weights by the plan of another machine"
expect 0 "${train[@]}" --steps 2 --budget 80% --plan plan.json --json
same "$(field weights_sha256)" "$digest" "weights by a plan that was saved before"

# A model.
expect 0 "$neap" bench "${model[@]}" --steps 2 --json
same "$(field model)" wrn-10-1 model
same "$(field batch)" 8 batch
same "$(field precision)" f32 precision
same "$(field steps)" 2 "steps that were timed"
has step_seconds kernel_seconds limit_seconds planned_peak_bytes parameters kinds operators
expect 0 "$neap" bench "${model[@]}" --steps 1 --precision bf16 --optimizer adamw
grep -q "bf16, 1 thread" out || fail "the step is not told of"
grep -q "^AdamW  *[0-9]* " out || fail "the updates are not among the operators"
awk 'length > 80' out >long
[ ! -s long ] || fail "lines are longer than a terminal: $(cat long)"
[ ! -s err ] || fail "it has messages"

# Without a cache it measures all the same.
echo "in the way" >blocked
XDG_CACHE_HOME=$folder/blocked expect 0 "$neap" bench --threads 1
[ ! -s err ] || fail "a cache that cannot be used is worth a message to nobody"

# What processes exchange: of each size a rate that is possible, and what to plan by.
table() { # table PROCESSES
  local processes=$1
  expect 0 "$neap" bench --processes "$processes"
  [ ! -s err ] || fail "exchanges have messages"
  [ "$(grep -c "iB .*B/s .*B/s .*B/s .*%$" out)" = 4 ] || fail "not four sizes of $processes processes: $(cat out)"
  awk 'length > 80' out >long
  [ ! -s long ] || fail "lines are longer than a terminal: $(cat long)"
  read -ra planned <<<"$(sed -n 's/^  neap plan //p' out)"
  expect 0 "$neap" plan --model wrn-10-1 --batch 12 --threads 1 "${planned[@]}" --json
  same "$(field processes)" "$processes" "processes that are planned"
}
object() { # object PROCESSES
  local processes=$1
  expect 0 "$neap" bench --processes "$processes" --json
  same "$(field processes)" "$processes" "processes that exchange"
  grep -o '"\(bytes\|[a-z]*_bytes_per_second\)": [0-9.e+]*' out >rates
  same "$(sed -n 's/"bytes": //p' rates | xargs)" "65536 1048576 16777216 67108864" "bytes of exchanges"
  awk -v latency="$(field latency_seconds)" '/_bytes_/ { rates++; bad += !($2 > 1e4 && $2 < 1e13) }
    END { exit !(rates == 13 && !bad && latency > 1e-9 && latency < 1) }' rates || fail "figures that are not possible: $(cat out)"
}
table 2
object 3
if [ -z "${NEAP_QUICK:-}" ]; then
  table 3
  object 2
fi
expect 2 "$neap" bench --processes 2 --model lenet
says "--model does nothing with several processes"
expect 2 "$neap" bench --processes 2 --threads 1
expect 2 "$neap" bench --processes 2 --steps 3
expect 2 "$neap" bench --processes 0
for mpi in openmpi mpich; do
  [ -e "$build/libneap_$mpi.so" ] && [ -n "$(command -v mpirun.$mpi)" ] || continue
  launch=(env ASAN_OPTIONS=detect_leaks=0 mpirun.$mpi -n 2) # an MPI keeps memory of its own
  [ $mpi = mpich ] || launch+=(--allow-run-as-root --oversubscribe)
  expect 0 "${launch[@]}" "$neap" bench --json
  same "$(field processes)" 2 "processes of $mpi that exchange"
  has latency_seconds bandwidth_bytes_per_second exchanges
  expect 2 "${launch[@]}" "$neap" bench --model lenet
  [ "$(grep -c "^neap: --model" err)" = 1 ] || fail "it is told more than once that --model does nothing"
done
