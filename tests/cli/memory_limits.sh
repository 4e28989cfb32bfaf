# However little address space, memory or stack there is, a run ends well or says why: never by a signal.
source "$(dirname "$0")/common.bash"
[ -z "${NEAP_SANITIZED:-}" ] || exit 77 # a sanitizer takes terabytes of address space

under() { # under OPTION LIMIT...: some are refused with a message, some are enough
  local option=$1 limit refused=0 enough=0
  shift
  for limit; do
    status=0
    (ulimit "$option" "$limit" && exec "${train[@]}" --threads 2 --steps 1) >out 2>err || status=$?
    case $status in
      0) enough=$((enough + 1)) ;;
      1) refused=$((refused + 1)) && [ -s err ] || fail "ulimit $option $limit: no message" ;;
      127) grep -q "shared libraries" err || fail "ulimit $option $limit ended with 127" ;; # the loader's own
      *) fail "ulimit $option $limit ended with $status" ;;
    esac
  done
  [ "$refused" -gt 0 ] && [ "$enough" -gt 0 ] || fail "ulimit $option: $refused were refused, $enough were enough"
}
# A quick pass tries every other limit, and looks for the least by a planner that plans at once.
every=$((${NEAP_QUICK:+1} + 1)) by=(${NEAP_QUICK:+--planner evict})
# shellcheck disable=SC2046
under -v $(seq 60000 $((every * 30000)) 480000)
# shellcheck disable=SC2046
under -d $(seq 3000 $((every * 3000)) 60000)
under -s 64 80 96 128 192 256 1024

# The stacks of OpenMP's threads, too.
expect 1 env OMP_STACKSIZE=16k "${train[@]}" --threads 2 --steps 1
says "OMP_STACKSIZE"

# A budget of what is available is what such a limit leaves, less a tenth; the process keeps it.
limited() { (ulimit -d "$1" && shift && exec "$@"); }
expect 0 limited 400000 "${train[@]}" --threads 2 --steps 1 --budget available
says "that ulimit -d has free; a tenth is left for other processes"
expect 3 limited 300000 "$neap" plan --model resnet50 --image 3x224x224 --batch 256 --budget available "${by[@]}"
says "the smallest that can"
expect 3 limited 330000 "$neap" train --model resnet50 --data synthetic: --batch 64 --steps 1 --budget available "${by[@]}"
says "the smallest that can, for the whole process: "
