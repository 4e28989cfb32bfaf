# Trained weights and states on disk: the bits of a run in memory at every budget, resumed and killed; what a run says of its
# traffic, and its limits; faults of the disk; and what is refused.
source "$(dirname "$0")/common.bash"

make_disk
seq 2000 >text
gpt=("$neap" train --model gpt-2x128x4 --data text:text --length 32 --batch 4 --threads 1 --evaluate off --optimizer adamw
  --schedule constant --lr 0.001 --planner evict)
expect 0 "${gpt[@]}" --steps 4 --budget max --json
weights=$(field weights_sha256) everything=$(field planned_peak_bytes)

# Bits and bytes.
spilled() { # OPTIONS...
  expect 0 "${gpt[@]}" --steps 4 --disk "$disk" "$@" --json
  same "$(field weights_sha256)" "$weights" "the weights with --disk $*"
  same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak with --disk $*"
  [ -z "$(ls "$disk")" ] || fail "something is left in $disk"
}
spilled --budget max
if "$json_field" spilled_bytes <out 2>/dev/null; then fail "variables lie on disk where all fits"; fi
spilled --budget max --disk-for states
has spilled_bytes disk_written_bytes_per_step disk_wait_seconds_per_step
states=$(field spilled_bytes)
spilled --budget max --disk-for weights,states
[ "$(field spilled_bytes)" -gt "$states" ] || fail "the weights are not on disk though they are named"
spilled --budget min
[ "$(field planned_peak_bytes)" -lt $((everything / 2)) ] || fail "the least is $(field planned_peak_bytes) of $everything"
[ "$(field spilled_bytes)" -gt "$states" ] || fail "the weights are not on disk"
least=$(field planned_peak_bytes)
spilled --budget $(((everything + least) / 2)) --clip-norm 1000
spilled --budget min --micro-batch 4

# A load that comes earlier by chance needs fewer bytes: then the peak is smaller, too.
expect 0 "${gpt[@]}" --optimizer sgd --steps 1 --disk "$disk" --budget min --json
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak with sgd"

# The process keeps to its budget with weights that are read as a whole, in formats of their own, for a checkpoint.
if [ -z "${NEAP_SANITIZED:-}" ]; then
  expect 0 "$neap" train --model resnet18 --image 3x32x32 --classes 10 --data synthetic:side=32,images=40 --batch 2 --steps 1 --threads 1 \
    --evaluate off --optimizer adamw --planner evict --disk "$disk" --process-budget 64MB --out images --json
  has spilled_bytes
  [ "$(field process_peak_bytes)" -le 64000000 ] || fail "the process took $(field process_peak_bytes) bytes"
fi

# First values from a file of sparse tensors, larger than the arena.
mlp=("$neap" train --model mlp-1024 --image 3x32x32 --data synthetic:side=32,images=40 --batch 2 --steps 1 --threads 1 --evaluate off
  --optimizer lomo --planner evict --precision bf16)
expect 0 "$neap" train --model mlp-1024 --image 3x32x32 --data synthetic:side=32,images=40 --batch 2 --steps 1 --threads 1 \
  --evaluate off --precision bf16 --sparse 0.1 --sparse-layers '*' --save-sparse --out sparse
expect 0 "${mlp[@]}" --init sparse --json
begun=$(field weights_sha256)
expect 0 "${mlp[@]}" --init sparse --disk "$disk" --budget min --json
has spilled_bytes
same "$(field weights_sha256)" "$begun" "the weights that began as sparse tensors"

# A plan is replayed with a folder, and refused without one. A profile leaves out what does not go with variables on disk.
expect 0 "${gpt[@]}" --steps 4 --disk "$disk" --budget min --save-plan plan.json
replay=("$neap" train --model gpt-2x128x4 --data text:text --length 32 --batch 4 --threads 1 --evaluate off --optimizer adamw
  --schedule constant --lr 0.001 --steps 4 --plan plan.json)
expect 0 "${replay[@]}" --disk "$disk" --json
has spilled_bytes
same "$(field weights_sha256)" "$weights" "the weights of a replayed plan"
expect 4 "${replay[@]}" --disk "$disk" --disk-for states
says "the plan keeps weights on disk, which --disk-for does not name"
expect 4 "${replay[@]}"
says "the plan keeps variables or activations on disk, but no folder is given"
profile=("$neap" plan --model gpt-2x128x4 --length 32 --batch 4 --threads 1 --planner evict --optimizer adamw --profile --disk "$disk")
expect 0 "${profile[@]}"
! grep -q sparse out || fail "a profile with variables on disk has sparse parameters"
grep -q '^recompute+micro=1+f16 ' out || fail "a profile lacks all techniques together: $(cat out)"
expect 1 "${profile[@]}" --allow micro,sparse=0.3
says "disk: it does not take sparse training"

# Resumed: in memory, and back.
expect 0 "${gpt[@]}" --steps 2 --disk "$disk" --budget min --out run
expect 0 "$neap" train --resume run --steps 3 --json
has spilled_bytes
expect 0 "$neap" train --resume run --steps 4 --budget max --disk-for auto --json
same "$(field weights_sha256)" "$weights" "the weights after resumptions"
expect 0 "${gpt[@]}" --steps 2 --disk "$disk" --disk-for states --disk-bytes 1GB --budget min --out gone
expect 0 "$neap" train --resume gone --steps 3
written=$(sed -n 's/.*writes \(.*\), the rest of the run writes \(.*\)/\1=\2/p' out)
[ -n "$written" ] || fail "what the rest of the run writes is not said"
same "${written#*=}" "${written%=*}" "what the rest of the run writes, one step"
expect 0 "$neap" train --resume gone --steps 4 --disk none --budget max --json
same "$(field weights_sha256)" "$weights" "the weights of a run that leaves the disk"
if grep -q '"spilled_bytes"' out; then fail "a run that leaves the disk has something there"; fi
expect 0 "$neap" evaluate run

# Killed and stopped at some moments.
for delay in 0.05 0.2 0.4 0.6; do
  rm -rf killed
  (timeout -s KILL "$delay" "${gpt[@]}" --steps 200 --disk "$disk" --budget min --checkpoint-every 1 --out killed || true) >/dev/null 2>&1
  [ -z "$(ls "$disk")" ] || fail "something is left in $disk after a kill"
  [ ! -e killed/state.json ] || expect 0 "$neap" train --resume killed --steps "$(($("$json_field" step <killed/state.json) + 1))"
done
"${gpt[@]}" --steps 100000 --disk "$disk" --budget min --checkpoint-every 1 --out stopped >out 2>err &
while [ ! -e stopped/state.json ]; do sleep 0.05; done
kill -TERM $!
wait $! || true
says "stopped on request"
expect 0 "$neap" train --resume stopped --steps "$(($("$json_field" step <stopped/state.json) + 1))"

# Limits.
expect 0 "${gpt[@]}" --steps 4 --disk "$disk" --budget min
grep -q "on disk  .* in $disk; a step reads .* and writes .*, the run writes " out err || fail "$(cat out err)"
expect 1 "${gpt[@]}" --steps 4 --disk "$disk" --budget min --disk-writes 8MB --out limited
says "disk-writes: 1 steps wrote"
expect 0 "$neap" train --resume limited --steps 4 --json
same "$(field weights_sha256)" "$weights" "the weights after a limit"
expect 2 "${gpt[@]}" --steps 4 --disk "$disk" --budget min --disk-writes 1MB
says "disk-writes: a step writes"
expect 2 "${gpt[@]}" --steps 4 --disk "$disk" --disk-for states --disk-bytes 1MB
says "are allowed"
expect 0 "${gpt[@]}" --steps 1 --disk "$disk" --budget min --disk-bytes 1MB --json
if "$json_field" spilled_bytes <out 2>/dev/null; then fail "more lies on disk than may"; fi
expect 0 "${gpt[@]}" --steps 1 --disk "$disk" --budget min --disk-bytes "$states" --json
same "$(field spilled_bytes)" "$states" "what lies on disk where only states may"
expect 3 "${gpt[@]}" --steps 4 --disk "$disk" --budget $((least / 100 * 99))
says "smallest"

# Faults: a message that names the folder, status 1, and the checkpoint of the step before. Short moves are no faults.
if [ -z "${NEAP_SANITIZED:-}" ]; then
  faulty() { # STATUS FAULT WORDS
    rm -rf broken
    expect "$1" env LD_PRELOAD="$build/tests/libfail_io.so" FAIL_IO_FILES="$disk/" FAIL_IO="$2" "${gpt[@]}" --steps 4 --disk "$disk" --budget min \
      --checkpoint-every 1 --out broken --json
    [ "$1" = 0 ] || says "$3"
    [ "$1" != 0 ] || same "$(field weights_sha256)" "$weights" "the weights after $2"
    [ ! -e broken/state.json ] || expect 0 "$neap" train --resume broken --steps 4 --json
    [ ! -e broken/state.json ] || same "$(field weights_sha256)" "$weights" "the weights after a resumption after $2"
    [ -z "$(ls "$disk")" ] || fail "something is left in $disk after $2"
  }
  faulty 0 "slow" ""
  for number in 1 20 90 150; do
    faulty 0 "read $number short" ""
    faulty 0 "write $number short" ""
    faulty 1 "read $number EIO" "$disk: its file cannot be read"
    faulty 1 "read $number none" "$disk: its file cannot be read"
  done
  for number in 2 30 70; do
    faulty 1 "write $number EIO" "$disk: its file cannot be written"
    faulty 1 "write $number ENOSPC" "No space left on device"
    faulty 1 "write $number flip" "was changed on the disk"
  done
fi

# What is refused before the first step.
expect 2 "${gpt[@]}" --steps 1 --disk /dev/shm --disk-for states
says "lie in memory (tmpfs)"
expect 1 "${gpt[@]}" --steps 1 --disk "$folder/nowhere" --disk-for states
says "$folder/nowhere"
expect 1 "${gpt[@]}" --steps 1 --disk "$folder/text" --budget max
says "is not a folder that may be written"
expect 2 "${gpt[@]}" --steps 1 --disk-for states
says "--disk"
expect 2 "${gpt[@]}" --steps 1 --disk "$disk" --disk-for everything
expect 1 "${gpt[@]}" --steps 1 --disk "$disk" --disk-for weights --ema 0.9
says "disk: it does not take averages"
expect 1 "${gpt[@]}" --steps 1 --disk "$disk" --micro-batch 2 --processes 2
says "disk: it does not take several processes"
expect 1 "${gpt[@]}" --steps 1 --disk "$disk" --sparse 0.5
says "disk: it does not take sparse training"
