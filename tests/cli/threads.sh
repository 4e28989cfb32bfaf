# Threads that the system does not give: with --threads 1 none is made, else the command says so itself.
source "$(dirname "$0")/common.bash"

if [ -n "${NEAP_SANITIZED:-}" ] || ! (ulimit -s 4194304 && ulimit -v 3000000) 2>/dev/null; then
  echo "skipped: the limits cannot be set here"
  exit 77
fi
# A thread's stack is as large as ulimit -s says: larger than all that the process may have.
poor() (
  unset OMP_NUM_THREADS
  ulimit -s 4194304
  ulimit -v 3000000
  exec "$@"
)
expect 0 poor "$neap" plan "${small[@]}" --budget 70% --json
expect 0 poor "$neap" curve "${small[@]}" --points 2 --planner neap --json
expect 0 poor "$neap" train "${small[@]}" --data synthetic:images=16 --budget 70% --steps 2 --out run --json
expect 0 poor "$neap" evaluate run --json
model=(--model wrn-10-1 --batch 8)
for verb in "plan" "curve --points 2" "show" "train --data synthetic:images=16 --steps 1"; do
  # shellcheck disable=SC2086
  expect 1 poor "$neap" $verb "${model[@]}" --threads 2
  quiet
  says "allows this process 1 thread, not 2"
  says "use --threads 1"
  ! grep -q libgomp err || fail "OpenMP has ended the process"
done
