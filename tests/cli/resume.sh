# A run that is interrupted and resumed ends with the same bits as one that was not.
source "$(dirname "$0")/common.bash"

expect 0 "${train[@]}" --steps 400 --json
weights=$(field weights_sha256) accuracy=$(field accuracy)

"${train[@]}" --steps 400 --out run --checkpoint-every 1 >out 2>err &
running=$!
for _ in $(seq 600); do [ ! -e run/command.json ] || break; sleep 0.1; done # signals are heeded from then on
kill -INT $running
status=0
wait $running || status=$?
same $status 130 "the exit status after SIGINT"
says "neap train --resume run"

cp -r run other
# Its options are next to it; another batch may not be given.
expect 0 "$neap" train --resume run --evaluate off --json
same "$(field steps)" 400 "steps in all"
same "$(field weights_sha256)" "$weights" "weights of the run that was interrupted"
same "$(field accuracy)" "$accuracy" "the epoch's accuracy of the run that was interrupted"
# A sanitizer has bytes of its own.
if [ -z "${NEAP_SANITIZED:-}" ] && echo 5 2>/dev/null >/proc/self/clear_refs; then
  [ "$(field rss_growth_bytes)" -le $(($(field budget_bytes) + $(field process_overhead_bytes))) ] ||
    fail "the process grew by more than the budget and its overhead"
fi
# Its kernels are part of the checkpoint: other ones are told, and taken, and kept beside the first.
! grep -q "same kernels" err || fail "the same kernels are told as others"
if [ "$(uname -m)" = x86_64 ] && grep -qw avx2 /proc/cpuinfo; then
  other=generic
  [ "${NEAP_MAX_CPU_ISA:-}" != generic ] || other=avx2
  expect 0 env NEAP_MAX_CPU_ISA=$other "$neap" train --resume other --evaluate off
  says "the same kernels"
  [ "$(grep -c '"neap [0-9.]* [a-z0-9_]*"' other/state.json)" = 2 ] || fail "a checkpoint without all of its kernels"
fi
# Time is reported the steps that it was taken by.
expect 0 "$neap" train --resume run --evaluate off
grep -qF "400 steps, 0 of them now in " out || fail "the summary does not tell this run's steps from all"
expect 2 "$neap" train --resume run --batch 4
says batch

# A plan in the place of a planner: what the run was begun with is no wrong usage.
expect 0 "${train[@]}" --steps 4 --planner evict --budget 70% --out short --save-plan p.json
expect 0 "$neap" train --resume short --plan p.json --json
same "$(field steps)" 4 "steps of a run that a plan was given"

# What was begun with an option that does nothing goes on.
expect 0 "${train[@]}" --steps 4 --optimizer adamw --out adamw
sed -i 's/"options": {/&"--momentum": "0.9",/' adamw/command.json
unseal adamw
expect 0 "$neap" train --resume adamw --json
same "$(field steps)" 4 "steps of a run with an option of another optimizer"

# A command of another kind or version is refused by the name of the field.
cp adamw/command.json command.json
unseal adamw
while read -r edit named; do
  sed "$edit" command.json >adamw/command.json
  ! cmp -s command.json adamw/command.json || fail "'$edit' changed nothing"
  expect 1 "$neap" train --resume adamw
  quiet
  says adamw/command.json
  says "$named"
done <<'EOF'
s/neap-command/neap-plan/ format
s/"format"/"shape"/ format
s/"version":.1/"version":2/ version
s/"version":.1/"version":"1"/ version
s/"options"/"choices"/ options
s/"0.9"/0.9/ options
EOF
cp command.json adamw/command.json

# While it plans there is nothing to save: it ends at once.
env --default-signal=INT "$neap" train --model wrn-28-2 --data synthetic --budget 30% --time-limit 60 --out planned >out 2>err &
running=$!
sleep 0.5
kill -INT $running
status=0
wait $running || status=$?
same $status 130 "the exit status after SIGINT while planning"
[ ! -e planned/state.json ] || fail "a run that was stopped while planning has a checkpoint"
