# Curves: for every planner a larger budget never costs more, and the answer fits it; the table has each plan once.
source "$(dirname "$0")/common.bash"

expect 0 "$neap" graph "${small[@]}" -o g.json
each=${NEAP_QUICK:+3} each=${each:-5} # points of a planner; a quick pass takes fewer
expect 0 "$neap" curve g.json --planner keep-all,chen-sqrt,rotor,evict,dtr,neap --points $each \
  --json -o curve.csv
cp out points.json
point() { "$json_field" "points.$1.$2" <points.json; }

planner= budget=0 cost= points=0
while point $points planner >field 2>err; do
  if [ "$(cat field)" != "$planner" ]; then
    planner=$(cat field)
    budget=0 cost=inf
  fi
  [ "$(point $points budget_bytes)" -ge $budget ] || fail "$planner: budgets do not rise"
  budget=$(point $points budget_bytes)
  [ "$(point $points peak_bytes)" -le "$budget" ] || fail "$planner: the plan is over the budget of $budget"
  awk -v before="$cost" -v now="$(point $points cost)" 'BEGIN { exit !(before == "inf" || now <= before) }' ||
    fail "$planner: $budget bytes cost more than fewer"
  cost=$(point $points cost)
  points=$((points + 1))
done
[ $points -ge $((4 * each)) ] || fail "$points points"
for planner in keep-all chen-sqrt rotor evict dtr neap; do
  grep -q "\"planner\": \"$planner\"" points.json || fail "$planner has no point"
done

# In the table a planner's plans need more and cost less, one after the other; the last of keep-all costs nothing more.
tail -n +2 curve.csv | awk -F, '$1 == planner && ($2 <= bytes || $3 >= overhead) { bad = 1 }
  { planner = $1; bytes = $2; overhead = $3 } END { exit bad || NR < 2 }' || fail "the table: $(cat curve.csv)"
grep -q '^keep-all,[0-9]*,0.000000$' curve.csv || fail "the row of keep-all"

# Who takes no such graph is reported; the others have their curves. Nobody at all: no picture.
write_skipping skipping.json
expect 0 "$neap" curve skipping.json --planner revolve,keep-all --points 2
says "revolve has no plan for this graph"
! grep -q revolve out || fail "a row for a planner without a plan"
expect 1 "$neap" curve skipping.json --planner revolve -o skipping.svg
quiet
[ ! -e skipping.svg ] || fail "a picture of nothing"

# Where nobody is named a few are asked, and the best of them comes first; all are those that auto asks.
write_chain chain.json 16
expect 0 "$neap" curve chain.json --points 3 -o few.csv --json
for planner in chen-sqrt rotor evict neap; do
  grep -q "\"planner\": \"$planner\"" out || fail "$planner is not asked"
done
! grep -q '"planner": "dtr"' out || fail "dtr is asked"
same "$(field tradable)" true "whether there is something to trade"
least=$(field best.0.peak_bytes)
expect 0 "$neap" curve chain.json --points 3
[ ! -s err ] || fail "a message about a curve like any other"
same "$(awk 'NR == 2 { print $1, $2 }' out)" "the best" "the first row"
same "$(tail -n +2 few.csv | sort -t, -k2n | head -1 | cut -d, -f2)" "$least" "the first of the best"
expect 0 "$neap" curve skipping.json --planner all --points 3 --json
grep -q '"planner": "dtr"' out || fail "dtr is not asked"
! grep -q '"planner": "checkmate"' out || fail "checkmate is asked, and auto does not ask it"
[ ! -s err ] || fail "a planner that was not named is reported"

# A model that has nothing to trade says so.
expect 0 "$neap" curve --model mlp --points 2
says "nothing to trade"
expect 0 "$neap" curve --model mlp --points 2 --json
same "$(field tradable)" false "what an mlp has to trade"

# A planner looks the same beside whomever it is drawn: the line and the mark of a legend's row stand before its name.
look() { grep -B2 ">$1</text>" "$2" | head -2 | grep -o 'stroke[^ ]*"\|^<[a-z]*' || fail "$2: $1 is not in the legend"; }
expect 0 "$neap" curve skipping.json --planner evict,neap --points 2 -o two.svg
expect 0 "$neap" curve skipping.json --planner neap --points 2 -o one.svg
same "$(look neap one.svg)" "$(look neap two.svg)" "how neap is drawn"
[ "$(look evict two.svg)" != "$(look neap two.svg)" ] || fail "two planners look the same"

# A line for each combination of techniques; more of them need less.
expect 0 "$neap" curve --model mlp --batch 4 --threads 1 --allow micro,f16 --points 2 -o techniques.csv --json
has points
same "$(field points.0.combination)" none "the first combination of a curve"
for name in none micro=1 f16 micro=1+f16; do grep -q "^$name," techniques.csv || fail "no line for $name"; done
expect 0 "$neap" curve --model mlp --batch 4 --threads 1 --allow f16 --points 2 -o techniques.svg
grep -q "cost over the cheapest" techniques.svg || fail "the picture does not say what cost is"
expect 2 "$neap" curve --model wrn-10-1 --allow f16 -o techniques.html
expect 2 "$neap" curve --model wrn-10-1 --allow f16 --planner evict
