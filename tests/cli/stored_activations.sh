# Activations on disk: the bits of a run in memory, what a run says of its traffic, a resumption, and a read that fails.
source "$(dirname "$0")/common.bash"

make_disk
if [ -n "${NEAP_SANITIZED:-}" ]; then
  echo "not run: plans take too long under the sanitizers, where test_disk stores activations"
  exit 77
fi
seq 2000 >text
# Layers that are wide enough for a disk.
wide=("$neap" train --model gpt-2x768x4 --data text:text --length 128 --batch 8 --threads 1 --evaluate off --optimizer lomo --schedule constant
  --lr 0.001)
expect 0 "${wide[@]}" --steps 3 --json
kept=$(field weights_sha256)
stored=(--disk "$disk" --disk-for activations --budget 62%)
expect 0 "${wide[@]}" --steps 3 "${stored[@]}" --json
same "$(field weights_sha256)" "$kept" "the weights with activations on disk"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak with activations on disk"
[ "$(field spilled_bytes)" -gt 0 ] || fail "no activation lies on disk"
[ "$(field disk_written_bytes_per_step | cut -d. -f1)" -le "$(field spilled_bytes)" ] || fail "an activation is written twice"
expect 0 "${wide[@]}" --steps 2 "${stored[@]}" --out wide
expect 0 "$neap" train --resume wide --steps 3 --json
same "$(field weights_sha256)" "$kept" "the weights resumed with activations on disk"
rm -rf wide
expect 1 env LD_PRELOAD="$build/tests/libfail_io.so" FAIL_IO_FILES="$disk/" FAIL_IO="read 4 EIO" "${wide[@]}" --steps 3 "${stored[@]}" \
  --checkpoint-every 1 --out wide
says "$disk: its file cannot be read"
[ -z "$(ls "$disk")" ] || fail "something is left in $disk"
