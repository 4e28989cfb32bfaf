# Images and classes: what is planned is what is trained, for every kind of model.
source "$(dirname "$0")/common.bash"

drawn=(--data synthetic:images=4 --evaluate off --steps 1 --threads 1)

# A plan with a shape of its own is one for a run with it, and for no other.
shape=(--image 1x24x16 --classes 3)
expect 0 "$neap" plan "${small[@]}" "${shape[@]}" --budget 90% -o p.json --json
peak=$(field peak_bytes)
expect 0 "$neap" train "${small[@]}" "${shape[@]}" --data synthetic --evaluate off --steps 1 --plan p.json --json
same "$(field measured_peak_bytes)" "$peak" "the peak of a run with the plan's shape"
expect 4 "$neap" train "${small[@]}" --data synthetic --evaluate off --steps 1 --plan p.json
says "images, classes"

# Without a word both take the model's usual one. A quick pass tries a network of each kind, and not those of large images.
models=("lenet --batch 4" "unet-4 --batch 1")
[ -n "${NEAP_QUICK:-}" ] || models+=("inception-v3 --batch 1" "pspnet-18 --batch 1")
for model in "${models[@]}"; do
  # shellcheck disable=SC2086
  expect 0 "$neap" plan --model $model --threads 1 --budget max -o usual.json --json
  peak=$(field peak_bytes)
  # shellcheck disable=SC2086
  expect 0 "$neap" train --model $model "${drawn[@]}" --plan usual.json --json
  same "$(field measured_peak_bytes)" "$peak" "the peak of $model"
done

# The verbs that take a model take its shape.
expect 0 "$neap" graph "${small[@]}" -o g.json --json
wide=$(field resident_bytes)
expect 0 "$neap" graph "${small[@]}" "${shape[@]}" -o g.json --json
[ "$(field resident_bytes)" -lt "$wide" ] || fail "a small image has as many bytes as a large one"
expect 0 "$neap" show "${small[@]}" "${shape[@]}" p.json --json
same "$(field peak_bytes)" "$("$json_field" resident_bytes <p.json | awk -v arena="$("$json_field" arena_bytes <p.json)" '{print $1 + arena}')" "the plan that is shown"
expect 0 "$neap" curve "${small[@]}" "${shape[@]}" --planner keep-all --points 2 --json

# A run goes on with its shape; a label more than the data has is no harm, one fewer is.
expect 0 "$neap" train "${small[@]}" --image 3x16x16 --data synthetic:side=16,classes=4,images=16 --classes 5 --steps 2 \
  --schedule constant --evaluate off --out run
expect 0 "$neap" train --resume run --steps 3
expect 2 "$neap" train "${small[@]}" --data synthetic:classes=4,images=16 --classes 3 --steps 1
says "3 classes are asked for"
expect 2 "$neap" train "${small[@]}" --data synthetic:side=16,images=16 --image 3x32x32 --steps 1
says "images of 3x32x32 are asked for"
