# Sparse parameters.
source "$(dirname "$0")/common.bash"

# Sparse parameters: less memory, the same bits with every budget and after a stop; dense files in and out.
expect 0 "${train[@]}" --steps 1 --micro-batch 2 --precision f16 "${tight[@]}" --json
most=$(field planned_peak_bytes)
sparse=("${train[@]}" --micro-batch 2 --precision f16 --sparse 0.3 --rewire-every 2)
expect 0 "${sparse[@]}" --steps 12 "${tight[@]}" --json
[ "$(field planned_peak_bytes)" -lt "$most" ] || fail "sparse: $(field planned_peak_bytes) of $most bytes"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak of sparse parameters"
same "$(field combination) $(printf %.3g "$(field density)")" "micro=2+f16+sparse=0.3 0.3" "the techniques that the run reports"
pruned=$(field weights_sha256)
expect 0 "${sparse[@]}" --steps 12 --out sparse-run --json
same "$(field weights_sha256)" "$pruned" "weights of sparse parameters with the least budget"
expect 0 "${sparse[@]}" --steps 12 --rewire-every off --json
[ "$(field weights_sha256)" != "$pruned" ] || fail "--rewire-every off does nothing"
expect 0 "$neap" evaluate sparse-run --json
expect 0 "$neap" predict --model wrn-10-1 --weights sparse-run/weights-*.safetensors --data synthetic -o logits.npy
expect 0 "${sparse[@]}" --steps 1 --init sparse-run/weights-*.safetensors --force --json
start=$(field weights_sha256)
# The same as values and indices.
expect 0 "${sparse[@]}" --steps 12 --out sparse-file --save-sparse --json
same "$(field weights_sha256)" "$pruned" "weights that are saved as values and indices"
[ "$(stat -c %s sparse-file/weights-*)" -lt "$(($(stat -c %s sparse-run/weights-*) * 3 / 4))" ] || fail "--save-sparse saves little"
expect 0 "$neap" train --resume sparse-file --json
same "$(field combination)" micro=2+f16+sparse=0.3 "techniques of a run that goes on"
same "$(field weights_sha256)" "$pruned" "weights of a run that goes on from values and indices"
expect 0 "$neap" evaluate sparse-file --json
expect 0 "${sparse[@]}" --steps 1 --init sparse-file/weights-*.safetensors --json
same "$(field weights_sha256)" "$start" "weights of a run that begins with values and indices"
expect 0 "${train[@]}" --steps 1 --allow micro,sparse=0.3 "${tight[@]}" --json
same "$(field combination)" micro=1+sparse=0.3 "the smallest combination with sparse parameters"
for wrong in "--sparse 0" "--sparse 1" "--sparse-layers x" "--save-sparse" "--sparse 0.3 --save-sparse" "--sparse 0.3 --allow micro" "--allow sparse=2"; do
  # shellcheck disable=SC2086
  expect 2 "${train[@]}" --steps 1 $wrong
done
expect 2 "${train[@]}" --steps 1 --sparse 0.3 --sparse-layers 'none*'
says "none*"
