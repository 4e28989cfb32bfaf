# Frozen weights that are stored in blocks of 8 bits.
source "$(dirname "$0")/common.bash"

run=("$neap" train "${small[@]}" --data synthetic:images=64 --schedule constant)
frozen=(--freeze '*' --freeze '!head.*')
blocks=("${frozen[@]}" --store '*=q8_0' --store '!head.*')

expect 0 "${run[@]}" "${frozen[@]}" --steps 4 --json
plain=$(field weights_sha256) resident=$(field resident_bytes) peak=$(field planned_peak_bytes)
expect 0 "${run[@]}" "${blocks[@]}" --steps 4 --out whole --json
weights=$(field weights_sha256)
[ "$weights" != "$plain" ] || fail "blocks of 8 bits change nothing"
same "$(($(field resident_bytes) + $(field stored_saved_bytes)))" "$resident" "the bytes that blocks save"
[ "$(field planned_peak_bytes)" -lt "$peak" ] || fail "the peak is no lower"
grep -q '"unstored": \["stem.conv1.weight", ' out || fail "what is in no blocks: $(cat out)"
same "$("$json_field" settings.store <whole/state.json)" '*=q8_0,!head.*' "what the checkpoint says is stored"
[ "$(stat -c %s whole/weights*)" -lt "$((resident * 2 / 3))" ] || fail "the checkpoint is no smaller"

# Every budget has the same bits, and so has a run that was stopped; the same weights are read without blocks.
expect 0 "${run[@]}" "${blocks[@]}" --steps 4 --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
expect 0 "${run[@]}" "${blocks[@]}" --steps 2 --out part
grep -q "^stored  *\*=q8_0,!head.\*: .* less; rows not a multiple of the block size: stem.conv1.weight, " out err || fail "$(cat out err)"
expect 0 "$neap" train --resume part --steps 4 --json
same "$(field weights_sha256)" "$weights" "the weights of a run that went on"
expect 2 "$neap" train --resume part --steps 5 --store 'stem.*=q8_0'
says store
expect 0 "$neap" evaluate whole --json
same "$(field weights_sha256)" "$weights" "the weights of the checkpoint"
expect 0 "$neap" plan --model wrn-10-1 --batch 8 --budget max "${blocks[@]}"

# What is wrong is said, and nothing is trained.
expect 2 "${run[@]}" --steps 1 --store '*=q8_0'
says "--store does nothing without --freeze"
expect 2 "${run[@]}" --steps 1 "${frozen[@]}" --store '*=q8_0'
says "is trained, and only frozen weights can be stored in q8_0"
expect 2 "${run[@]}" --steps 1 "${frozen[@]}" --store 'stem.*=q3_k'
says "TYPE is one of q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, nf4"
expect 2 "${run[@]}" --steps 1 "${frozen[@]}" --store 'trunk.*=q8_0'
says "no parameter that 'trunk.*' matches"
expect 2 "${run[@]}" --steps 1 "${frozen[@]}" --store 'stem.*=q8_0'
says "multiple of 32 elements; 'stem.conv1.weight' is [16, 3, 3, 3]"
