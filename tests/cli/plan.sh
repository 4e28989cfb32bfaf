# Graphs, plans and the checker; budgets that cannot be met and what is said of them.
source "$(dirname "$0")/common.bash"

expect 0 "$neap" graph "${small[@]}" -o g.json --json
has graph batch tensors nodes resident_bytes base_cost
same "$(field batch)" 8 "batch"

fields="graph planner budget_bytes feasible peak_bytes resident_bytes arena_bytes cost base_cost overhead seconds \
recomputed lower_bound_bytes cost_lower_bound proven_optimal"
for step in "g.json" "${small[*]}"; do
  for budget in max 85%; do
    expect 0 "$neap" plan $step --budget $budget --json
    has $fields
    same "$(field feasible)" true "feasible with $budget"
    [ "$(field peak_bytes)" -le "$(field budget_bytes)" ] || fail "the plan is over its budget of $budget"
    [ "$(field lower_bound_bytes)" -le "$(field peak_bytes)" ] || fail "the plan is below the bound of all plans"
    same "$(field peak_bytes)" $(($(field resident_bytes) + $(field arena_bytes))) "peak and its parts"
  done
done

# A plan file is valid, and what is changed in it is found.
expect 0 "$neap" plan g.json --budget 85% -o p.json
expect 0 "$neap" check g.json p.json
expect 0 "$neap" check g.json p.json --json
has valid peak_bytes cost reason position
same "$(field valid)" true "a plan that was written"
invalid() { # invalid SED-EXPRESSION
  sed -E "$1" p.json >edited.json
  ! cmp -s p.json edited.json || fail "'$1' changed nothing"
  expect 4 "$neap" check g.json edited.json --json
  same "$(field valid)" false "after $1"
  [ -n "$(field reason)" ] || fail "no reason after $1"
  expect 4 "$neap" check g.json edited.json
}
invalid 's/"peak_bytes": *[0-9]+/"peak_bytes": 1/'
invalid 's/"base_cost": *[0-9.e+-]+/"base_cost": 12345/'
invalid 's/"offset": *0\b/"offset": 64/'
invalid 's/"arena_bytes": *[0-9]+/"arena_bytes": 64/'

# Over the budget: the smallest budget that is named can be met, and so can the largest batch; one more cannot.
by=(--planner evict)
expect 0 "$neap" plan "${small[@]}" "${by[@]}" --budget min --json
over=$(($(field peak_bytes) * 2 / 3))
expect 3 "$neap" plan "${small[@]}" "${by[@]}" --budget $over
quiet
says "--budget"
expect 3 "$neap" plan "${small[@]}" "${by[@]}" --budget $over --json
same "$(field feasible)" false "feasible"
smallest=$(field smallest_budget_bytes) batch=$(field largest_batch)
expect 0 "$neap" plan "${small[@]}" "${by[@]}" --budget "$smallest"
if [ "$batch" -gt 0 ]; then expect 0 "$neap" plan "${small[@]}" "${by[@]}" --batch "$batch" --budget $over; fi
expect 3 "$neap" plan "${small[@]}" "${by[@]}" --batch $((batch + 1)) --budget $over
expect 3 "$neap" plan g.json "${by[@]}" --budget 64 --json
same "$(field largest_batch)" 0 "largest batch of a graph file"

# The least that costs much: what it costs, and a budget that costs at most half more, which is held to.
deep=(--model preresnet-32 --batch 2 --threads 1)
for by in rotor revolve; do
  expect 0 "$neap" plan "${deep[@]}" --planner $by --budget min --json
  awk -v overhead="$(field overhead)" 'BEGIN { exit !(overhead > 0.5) }' || fail "the least costs little, and the test tests nothing"
  affordable=$(field affordable_budget_bytes) least=$(field peak_bytes)
  says "--budget $affordable"
  same "$(wc -l <err)" 1 "lines about it"
  [ "$affordable" -gt "$least" ] || fail "what costs less is less than the least"
  expect 0 "$neap" plan "${deep[@]}" --planner $by --budget "$affordable" --json
  awk -v overhead="$(field overhead)" 'BEGIN { exit !(overhead <= 0.5) }' || fail "$affordable costs $(field overhead)"
  [ ! -s err ] || fail "a word about a budget that is not the least"
done
write_chain chain.json 16
expect 0 "$neap" plan chain.json --budget min --json
affordable=$(field affordable_budget_bytes)
says "--budget $affordable"
expect 0 "$neap" plan chain.json --budget "$affordable" --json
awk -v overhead="$(field overhead)" 'BEGIN { exit !(overhead <= 0.5) }' || fail "$affordable costs $(field overhead)"
expect 0 "$neap" plan --model mlp --threads 1 --budget min --json
same "$(field affordable_budget_bytes)" null "what costs less than what costs little"
[ ! -s err ] || fail "a word about a least that costs little"

# All planners.
for planner in $("$neap" planners | awk '/^[^ ]/ {print $1}'); do
  expect 0 "$neap" plan g.json --budget max --planner "$planner" -o "$planner.json"
  expect 0 "$neap" check g.json "$planner.json"
done
write_skipping skipping.json
expect 0 "$neap" plan skipping.json --budget 85% --planner all --json
has plans.0.planner plans.0.feasible plans.1.planner
# A row has the name that was asked, whoever made the plan.
for budget in max 85%; do
  expect 0 "$neap" plan skipping.json --budget $budget --planner all --json
  row=0
  for planner in $("$neap" planners | awk '/^[^ ]/ {print $1}'); do
    same "$(field plans.$row.planner)" "$planner" "row $row of all planners with $budget"
    row=$((row + 1))
  done
done
expect 0 "$neap" plan skipping.json --budget max --planner evict --json
same "$(field planner) $(field made_by)" "evict keep-all" "a planner that was asked, and who made the plan"

# `-o -` is standard output, which then has nothing else; a unit that means two things is reported.
expect 0 "$neap" graph "${small[@]}" -o -
cmp out g.json || fail "the graph on standard output"
expect 0 "$neap" plan g.json --budget 85% -o -
"$neap" check g.json out >/dev/null || fail "the plan on standard output"
[ ! -e - ] || fail "a file of the name -"
expect 2 "$neap" plan g.json -o - --json
expect 0 "$neap" plan g.json --budget 900M --json
same "$(field budget_bytes)" $((900 << 20)) "900M"
says "a budget of 900M means 900 MiB (943718400 bytes)"
expect 0 "$neap" plan g.json --budget 900MiB
[ ! -s err ] || fail "a message about a unit that is clear"

# A planner that does not take a graph says so: no budget would help.
expect 1 "$neap" plan skipping.json --budget 90% --planner revolve
quiet
says "--planner revolve has no plan for this graph under any budget: it accepts chains"
expect 1 "$neap" plan skipping.json --budget 90% --planner revolve --json
same "$(field feasible) $(field smallest_budget_bytes) $(field largest_batch)" "false null null" "an answer without a plan"
expect 0 "$neap" plan skipping.json --budget max --planner all
expect 3 "$neap" plan skipping.json --budget 1000 --planner all
grep -q "^revolve *has no plan for this graph" out || fail "revolve in the table of all"
! grep -q " 0 B" out || fail "a smallest budget of nothing"

# Time for the search, and nothing about it where standard error is no terminal.
expect 0 "$neap" plan g.json --budget 85% --time-limit 1 --json
[ ! -s err ] || fail "a line of progress in a file"

# A plan sizes what kernels work in for the threads that it is made for: training by it takes it.
for threads in 1 3; do
  expect 0 "$neap" plan "${small[@]}" --threads $threads --budget 70% -o threads.json
  expect 0 "$neap" train "${small[@]}" --data synthetic --steps 1 --threads $threads --plan threads.json
done
expect 4 "$neap" train "${small[@]}" --data synthetic --steps 1 --threads 2 --plan threads.json
says "threads"

# A plan for a variant names it; whoever reads the plan takes it with the variant's step, whatever else is said.
unet=(--model unet-4 --batch 1 --threads 1)
expect 0 "$neap" graph "${unet[@]}" -o base.json --json
name=$(field graph)
expect 0 "$neap" graph "${unet[@]}" --variant mask -o mask.json --json
same "$(field graph)" "$name+mask" "the variant's name"
expect 0 "$neap" plan base.json --json
budget=$(($(field peak_bytes) * 8 / 10))
expect 0 "$neap" plan "${unet[@]}" --variant mask --planner rotor --budget $budget -o variant.json
expect 0 "$neap" check mask.json variant.json
expect 4 "$neap" check base.json variant.json
for variant in auto base mask; do
  expect 0 "$neap" show "${unet[@]}" --variant $variant variant.json --json
  same "$(field graph)" "$name+mask" "the graph of a plan file with --variant $variant"
done
cost() { # cost VARIANT
  expect 0 "$neap" plan "${unet[@]}" --variant "$1" --planner rotor --budget $budget --json
  field cost
}
base=$(cost base) mask=$(cost mask)
same "$(cost auto)" "$(printf '%s\n' "$base" "$mask" | sort -g | head -1)" "the cost of the variant that is picked"
expect 2 "$neap" plan "${unet[@]}" --variant other

# Where another order is all that it takes the overhead is nothing, however the same costs in that order round: eight
# leaves made before the tree above them, in pairs.
tensors='{"name": "t0", "bytes": 64, "role": "value"}' nodes='' costs=(0.1 1 0.3)
for id in $(seq 14); do tensors+=", {\"name\": \"t$id\", \"bytes\": 64, \"role\": \"value\"}"; done
for id in $(seq 0 14); do
  cost=0.2 inputs="$((2 * (id - 8))), $((2 * (id - 8) + 1))"
  [ "$id" -ge 8 ] || cost=${costs[id % 3]} inputs=""
  nodes+="${nodes:+,}{\"name\": \"n$id\", \"op\": \"f\", \"pass\": \"forward\", \"cost\": $cost, \"workspace\": 0,
    \"inputs\": [$inputs], \"outputs\": [$id], \"updates\": [], \"inplace\": []}"
done
echo "{\"format\": \"neap-graph\", \"version\": 1, \"name\": \"tree\", \"tensors\": [$tensors], \"nodes\": [$nodes],
  \"outputs\": [14]}" >tree.json
expect 0 "$neap" plan tree.json --budget 60% --json
same "$(field recomputed)" 0 "what is made again in another order"
same "$(field overhead)" 0.0 "its overhead"
expect 0 "$neap" plan tree.json --budget 60%
grep -qF "+0.0 %" out || fail "no overhead of +0.0 % in the table"

# A graph file is as it is: options for models do not go with it.
for option in "--batch 4" "--image 3x16x16" "--classes 4" "--optimizer adamw" "--momentum 0" "--conv direct" "--backend reference" "--costs measured" "--variant base"; do
  expect 2 "$neap" plan tree.json --budget 60% $option
  grep -q -- "${option% *} needs --model" err || fail "no word of ${option% *} for a model: $(cat err)"
done
expect 0 "$neap" plan tree.json --budget 60% --threads 1 --json

# What each technique makes of the memory: alone, in pairs and together, each less than nothing at all.
expect 0 "$neap" plan --model mlp --batch 8 --threads 1 --profile --json
same "$(field profile.0.combination)" none "the first row of a profile"
whole=$(field profile.0.peak_bytes)
same "$(field profile.11.combination)" recompute+micro=1+f16+sparse=0.3 "the last row of a profile"
for row in 1 2 3 11; do
  [ "$(field profile.$row.peak_bytes)" -lt "$whole" ] || fail "row $row of the profile takes $(field profile.$row.peak_bytes) of $whole bytes"
done
expect 0 "$neap" plan --model mlp --batch 8 --threads 1 --profile --allow micro
expect 0 "$neap" plan "${small[@]}" --profile --allow micro --planner keep-all --json
same "$(field profile.1.combination) $(field profile.1.overhead)" "recompute 0.0" "the profile of the planner that is named"
expect 2 "$neap" plan "${small[@]}" --profile --planner all
says "--planner all: compares plans of one step"
expect 2 "$neap" plan --profile
expect 2 "$neap" plan --model wrn-10-1 --profile --precision f16
