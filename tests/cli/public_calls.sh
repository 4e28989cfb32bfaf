# Every function of the public headers is called with NULL by tests/library/test_null.c.
source "$(dirname "$0")/common.bash"

grep -ohE '\bneap_[a-z0-9_]+\(' "$source"/include/*.h | tr -d '(' | sort -u >declared
grep -ohE '\bneap_[a-z0-9_]+\(' "$source/tests/library/test_null.c" | tr -d '(' | sort -u >called
missing=$(comm -23 declared called | grep -v '_function$' || true)
[ -z "$missing" ] || fail "tests/library/test_null.c does not call: $missing"
