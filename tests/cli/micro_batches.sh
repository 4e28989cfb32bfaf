# Micro-batches.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 3 --json
weights=$(field weights_sha256) everything=$(field planned_peak_bytes)

# Micro-batches: less memory, the same bits with every budget and after a stop; "auto" takes what fits a share of the
# whole batch's memory.
parts=("${train[@]}" --micro-batch 2 --schedule constant)
expect 0 "${parts[@]}" --steps 3 --json
split=$(field weights_sha256) most=$(field planned_peak_bytes)
same "$(field micro_batches)" $(($(field batch) / 2)) "the number of micro-batches"
[ "$most" -lt "$everything" ] || fail "micro-batches take $most of $everything bytes"
expect 0 "${parts[@]}" --steps 3 "${tight[@]}" --json
same "$(field weights_sha256)" "$split" "weights of micro-batches with the least budget"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "planned and measured peak of micro-batches"
expect 0 "${parts[@]}" --steps 2 --out parts
expect 0 "$neap" train --resume parts --steps 3 --json
same "$(field weights_sha256)" "$split" "weights of micro-batches of a run that is resumed"
expect 0 "${train[@]}" --steps 1 --micro-batch auto --budget 32% --json
[ "$(field micro_batches)" -gt 1 ] && [ "$(field planned_peak_bytes)" -le $((everything * 32 / 100)) ] ||
  fail "micro-batches that fit: $(field micro_batches) in $(field planned_peak_bytes) of $everything bytes"
