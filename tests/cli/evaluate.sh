# The test accuracy of a checkpoint; runs that are gone on with for longer, and from another folder.
source "$(dirname "$0")/common.bash"

drawn=("$neap" train "${small[@]}" --data synthetic:images=40)

# After --steps, too, although no epoch ends there; and the checkpoint has what the run told.
expect 0 "${drawn[@]}" --steps 3 --schedule constant --out run --metrics m.jsonl --json
accuracy=$(field test_accuracy) weights=$(field weights_sha256)
[ "$accuracy" != null ] || fail "no test accuracy after --steps"
same "$(tail -1 m.jsonl | "$json_field" test_accuracy | cut -c1-8)" "$(echo "$accuracy" | cut -c1-8)" "in the metrics"
cp -r run before
for more in "" "--batch 3" "--budget min" "--threads 1" "--data synthetic:images=40,seed=0"; do
  # shellcheck disable=SC2086
  expect 0 "$neap" evaluate run $more --json
  has model data batch step epoch images test_accuracy test_loss budget_bytes planned_peak_bytes weights_sha256
  same "$(field test_accuracy) $(field images) $(field step)" "$accuracy 8 3" "the checkpoint with '$more'"
  same "$(field weights_sha256)" "$weights" "its weights"
done
diff -r run before || fail "an evaluation has changed the checkpoint"
expect 0 "$neap" evaluate run
grep -q "accuracy .* over 8 images" out || fail "what is printed for people"
expect 0 "$neap" evaluate run --data synthetic:images=400 --json
same "$(field images)" 80 "images of other data"
expect 3 "$neap" evaluate run --budget 1KiB
says "--budget"
expect 1 "$neap" evaluate missing
quiet
says missing

# A finished run goes on for longer, as if it had been begun so; where the schedule does not allow it that is said.
expect 0 "${drawn[@]}" --epochs 2 --schedule constant --out short
expect 0 "$neap" train --resume short --epochs 3 --json
longer=$(field weights_sha256)
same "$(field steps)" 15 "steps of a run that went on"
expect 0 "${drawn[@]}" --epochs 3 --schedule constant --json
same "$(field weights_sha256)" "$longer" "weights of a run that went on"
expect 0 "$neap" train --resume short --json
same "$(field steps)" 15 "the length that was last asked for"
expect 0 "${drawn[@]}" --epochs 1 --out cosine
for way in "" "--schedule step"; do
  # shellcheck disable=SC2086
  expect 0 "${drawn[@]}" --epochs 1 $way --out fixed --force
  expect 2 "$neap" train --resume fixed --epochs 2
  says "depend on its 5 steps"
  says "--schedule constant"
  weights=$("$json_field" weights <fixed/state.json)
  says "--init fixed/$weights"
done
expect 0 "${drawn[@]}" --epochs 2 --init "fixed/$weights"
expect 0 "$neap" train --resume cosine --json
same "$(field steps)" 5 "a finished run that is to go on no further"

# Data, plan and metrics are found from anywhere.
mkdir data elsewhere
for set in train t10k; do
  { printf '\0\0\x08\x03\0\0\0\x10\0\0\0\x05\0\0\0\x05' && head -c 400 "$neap"; } >data/$set-images-idx3-ubyte
  printf '\0\0\x08\x01\0\0\0\x10\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7' >data/$set-labels-idx1-ubyte
done
mlp=("$neap" train --model mlp --batch 4 --threads 1 --data mnist:data --schedule constant)
expect 0 "${mlp[@]}" --steps 4 --save-plan plan.json --json
expect 0 "${mlp[@]}" --steps 2 --plan plan.json --out there --metrics there.jsonl
cd elsewhere
expect 0 "$neap" train --resume ../there --steps 4 --json
same "$(field steps)" 4 "steps of a run that went on from elsewhere"
expect 0 "$neap" evaluate ../there --json
same "$(field images)" 16 "test images from elsewhere"
cd ..
same "$(wc -l <there.jsonl)" 4 "lines of metrics from elsewhere"
