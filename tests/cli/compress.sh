# Values that gradients read in few bits: less memory, the same bits at every budget, in several processes, in a pipeline, after a
# resumption and after a killed run; what it is refused with.
source "$(dirname "$0")/common.bash"

seq 2000 >text
gpt=("$neap" train --model gpt-2x32x4 --data text:text --length 32 --batch 6 --micro-batch 2 --threads 1 --evaluate off
  --schedule constant)
expect 0 "${gpt[@]}" --steps 4 --json
exact=$(field weights_sha256) exact_bytes=$(field planned_peak_bytes)
compress=(--compress 4)
expect 0 "${gpt[@]}" "${compress[@]}" --steps 4 --json
weights=$(field weights_sha256)
[ "$weights" != "$exact" ] || fail "--compress does nothing"
[ "$(field planned_peak_bytes)" -lt "$exact_bytes" ] || fail "it needs $(field planned_peak_bytes) of $exact_bytes bytes"
same "$(field planned_peak_bytes)" "$(field measured_peak_bytes)" "the measured peak"
expect_same_bits "$weights" "${gpt[@]}" "${compress[@]}"
same "$("$json_field" settings.compress <run/state.json)" 4 "what the checkpoint has"
expect 2 "$neap" train --resume run --steps 5 --compress 8
says compress
expect 0 "$neap" evaluate run --json

# A run that is killed goes on from its last checkpoint.
expect 0 "${gpt[@]}" "${compress[@]}" --steps 300 --json
weights=$(field weights_sha256)
"${gpt[@]}" "${compress[@]}" --steps 300 --out killed --checkpoint-every 1 >out 2>err &
running=$!
for _ in $(seq 600); do [ ! -e killed/state.json ] || break; sleep 0.02; done
kill -KILL $running 2>/dev/null || fail "the run ended too early"
wait $running || true
expect 0 "$neap" train --resume killed --json
same "$(field weights_sha256)" "$weights" "the weights of the run that was killed"

# By name; with the bits of ReLU, 16 bits, adapters, averages and sparse parameters.
expect 0 "${gpt[@]}" --compress '8:*attention*' --steps 1 --json
expect 2 "${gpt[@]}" --compress '8:nothing*' --steps 1
says "compress: 'gpt-2x32x4-b2' has no value that 'nothing*' matches"
expect 2 "${gpt[@]}" --compress 5 --steps 1
says "compress: '5' is neither 8 nor 4"
expect 0 "${gpt[@]}" "${compress[@]}" --precision bf16 --master --steps 1 --json
expect 0 "${gpt[@]}" "${compress[@]}" --lora 4 --lora-dropout 0.1 --ema 0.9 --steps 1 "${tight[@]}" --json
net=("${train[@]}" --steps 3 --compress 8 --bits portable)
expect 0 "${net[@]}" --json
weights=$(field weights_sha256)
expect 0 "${net[@]}" "${tight[@]}" --json
same "$(field weights_sha256)" "$weights" "the weights of a network with ReLU within the least budget"
if [ "$(uname -m)" = x86_64 ] && grep -qw avx2 /proc/cpuinfo; then
  for isa in generic avx2; do
    expect 0 env NEAP_MAX_CPU_ISA=$isa "${net[@]}" --json
    same "$(field weights_sha256)" "$weights" "the portable weights of $isa"
  done
fi
expect 0 "${train[@]}" --steps 2 --compress 4 --sparse 0.3 --rewire-every 1 --json

# A plan and a curve of it.
plan=("$neap" plan --model gpt-2x64x4 --length 64 --batch 4 --budget max --json)
expect 0 "${plan[@]}"
bytes=$(field peak_bytes)
expect 0 "${plan[@]}" --compress 8
eight=$(field peak_bytes)
expect 0 "${plan[@]}" --compress 4
[ "$(field peak_bytes)" -lt "$eight" ] && [ "$eight" -lt "$bytes" ] || fail "keeping all takes $bytes, $eight and $(field peak_bytes) bytes"
expect 0 "$neap" curve --model gpt-1x32x4 --length 16 --batch 2 "${compress[@]}" "${at_once[@]}" -o curve.csv
[ -s curve.csv ] || fail "there is no curve"

# What it does not go with is said before the first step.
expect 2 "${gpt[@]}" "${compress[@]}" --mezo --steps 1
says "--compress does nothing together with --mezo"
