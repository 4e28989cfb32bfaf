# neap predict: what training reported, in less memory than its least; and what it refuses.
source "$(dirname "$0")/common.bash"

data=synthetic:images=400,side=16
expect 0 "$neap" train --model wrn-10-1 --data $data --batch 20 --steps 8 --evaluate on --out run --json
accuracy=$(field test_accuracy)
weights=$(echo run/*.safetensors)
expect 0 "$neap" plan --model wrn-10-1 --image 3x16x16 --classes 10 --batch 20 --budget min --json
least=$(field peak_bytes)
expect 0 "$neap" predict --model wrn-10-1 --weights "$weights" --data $data --batch 20 -o out.npy --json
[ "$(field accuracy)" = "$accuracy" ] || fail "predict has an accuracy of $(field accuracy), training had $accuracy"
[ "$(field measured_peak_bytes)" -lt "$least" ] || fail "predict takes $(field measured_peak_bytes) bytes, training $least"
[ "$(field measured_peak_bytes)" = "$(field planned_peak_bytes)" ] || fail "planned and measured differ"
records=$(field records)
[ "$(head -c 6 out.npy | tail -c 5)" = NUMPY ] || fail "out.npy is no file of NumPy"
[ "$(wc -c <out.npy)" = $((128 + records * 10 * 4)) ] || fail "out.npy does not have $records rows of 10"

# Another batch leaves a rest, and the same rows.
expect 0 "$neap" predict --model wrn-10-1 --weights "$weights" --data $data --batch 7 -o other.npy
grep -q "$records records" out || fail "it does not say $records records"
[ "$(wc -c <other.npy)" = "$(wc -c <out.npy)" ] || fail "another batch makes another size"
expect 0 "$neap" predict --model wrn-10-1 --weights "$weights" --data $data --batch 20 --train -o train.npy --json
[ "$(field records)" = 400 ] || fail "--train takes $(field records) records"

expect 2 "$neap" predict --model wrn-10-1 --data $data -o out.npy
says "--weights is missing"
expect 2 "$neap" predict --model wrn-10-1 --weights "$weights" --data $data --output nothing -o none.npy
says "no output 'nothing'"
[ ! -e none.npy ] || fail "none.npy was written"
expect 2 "$neap" predict --model wrn-10-1 --weights run --data $data -o none.npy
says "is a folder"
expect 1 "$neap" predict --model wrn-16-1 --weights "$weights" --data $data -o none.npy
says "has no tensor"
expect 3 "$neap" predict --model wrn-10-1 --weights "$weights" --data $data --budget 1KiB -o none.npy
says "the smallest that can"

# Weights that are not finite are named when they are read, whoever reads them.
cp "$weights" nan.safetensors
header=$(od -An -t u8 -N 8 nan.safetensors)
printf '\0\0\300\177' | dd of=nan.safetensors bs=1 seek=$((8 + header)) conv=notrunc status=none
expect 1 "$neap" predict --model wrn-10-1 --weights nan.safetensors --data $data -o none.npy
says "nan.safetensors: tensor"
says "NaN at element 0"
expect 1 "${train[@]}" --steps 1 --init nan.safetensors
says "NaN at element 0"
