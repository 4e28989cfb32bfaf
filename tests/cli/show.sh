# Where the bytes go: table and picture of a plan, and the curve of a step file.
source "$(dirname "$0")/common.bash"

expect 0 "$neap" graph "${small[@]}" -o g.json
expect 0 "$neap" plan g.json --budget 85% -o p.json
write_skipping skipping.json
expect 3 "$neap" show "${small[@]}" --budget 1000 --json
same "$(field feasible) $(field peak_bytes)" "false null" "what does not fit"
[ "$(field smallest_budget_bytes)" -gt 1000 ] || fail "no smallest budget"
expect 2 "$neap" show g.json -o show.png
expect 0 "$neap" show g.json p.json
expect 0 "$neap" show g.json p.json --budget 85% -o show.svg --json
has peak_bytes peak_node kinds.parameters.at_peak_bytes kinds.workspace.most_bytes
grep -q "</svg>" show.svg && grep -q "budget" show.svg || fail "the picture of memory"
# Plan, table and picture have one peak; the label of the budget is next to its line, not in the legend.
expect 0 "$neap" show g.json p.json --budget 85% -o show.svg --json
same "$(($(field live_bytes) + $(field gap_bytes)))" "$(field peak_bytes)" "what lives and the gaps"
same "$(field within_budget)" true "a plan within its budget"
[ ! -s err ] || fail "a warning about a plan within its budget"
expect 0 "$neap" plan g.json --budget 85%
peak=$(awk '/^planner/ { getline; print $2, $3 }' out)
expect 0 "$neap" show g.json p.json --budget 85% -o show.svg
grep -qF "peak $peak: " out || fail "show has another peak than plan: $peak"
grep -qF "peak $peak (" show.svg || fail "the picture has another peak than plan: $peak"
grep -q "^gaps in the arena" out || fail "the gaps are not in the table"
x=$(grep -o '<text x="[0-9.]*"[^>]*text-anchor="end"[^>]*>budget ' show.svg | sed 's/<text x="\([0-9]*\).*/\1/')
legend=$(grep -o '<rect x="[0-9.]*"[^>]*width="14"' show.svg | head -1 | sed 's/<rect x="\([0-9]*\).*/\1/')
[ "$x" -lt "$legend" ] || fail "the label of the budget ends at $x, the legend begins at $legend"
expect 0 "$neap" show g.json p.json --budget 60% -o show.svg --json
same "$(field within_budget)" false "a plan over the budget"
says "more than the budget of"
grep -q "exceeded by" show.svg || fail "the picture does not say that the budget is exceeded"

for ending in csv svg html; do expect 0 "$neap" curve g.json --planner rotor,evict --points 3 -o curve.$ending; done
grep -q "</svg>" curve.svg && grep -q "</html>" curve.html || fail "the picture of the curve"
same "$(head -1 curve.csv)" "planner,peak_bytes,overhead" "the curve's heading"
expect 0 "$neap" curve skipping.json --planner auto --points 3 --json
has points.0.peak_bytes points.0.overhead
