# However little address space there is, a run ends well or says why: never by a signal.
source "$(dirname "$0")/common.bash"
[ -z "${NEAP_SANITIZED:-}" ] || exit 77 # a sanitizer takes terabytes of address space

refused=0 enough=0
for limit in $(seq 60000 30000 480000); do
  status=0
  (ulimit -v "$limit" && exec "${train[@]}" --steps 1) >out 2>err || status=$?
  case $status in
    0) enough=$((enough + 1)) ;;
    1) refused=$((refused + 1)) && [ -s err ] || fail "ulimit -v $limit: no message" ;;
    127) grep -q "shared libraries" err || fail "ulimit -v $limit ended with 127" ;; # the loader's own
    *) fail "ulimit -v $limit ended with $status" ;;
  esac
done
[ "$refused" -gt 0 ] && [ "$enough" -gt 0 ] || fail "$refused limits were refused, $enough were enough"
