# Measured costs: processes that measure at once share the user's cache; without one they measure all the same.
source "$(dirname "$0")/common.bash"

measured() { "$neap" plan "${small[@]}" --budget 85% --costs measured --json; }
measured >first.json 2>first.err &
first=$!
expect 0 measured
wait $first || fail "the other one of two at once: $(cat first.err)"
[ -s cache/neap/kernels-1.sqlite ] || fail "there is no file of times"

# Now all times are known: two answers are the same.
expect 0 measured
cost=$(field base_cost)
expect 0 measured
same "$(field base_cost)" "$cost" "costs of two plans with the same times"

echo "in the way" >cache/blocked
XDG_CACHE_HOME=$folder/cache/blocked expect 0 measured
[ ! -s err ] || fail "a cache that cannot be used is worth a message to nobody"
