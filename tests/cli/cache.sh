# Where states lie along prompts that share their beginnings.
source "$(dirname "$0")/common.bash"

printf 'tokens,requests\n10,5\n100,20\n\n101,3\n500,1\n4096,7\n' >h.csv
expect 0 "$neap" cache h.csv --states 5
grep -q "no state" out || fail "the table"
expect 0 "$neap" cache h.csv --states 5 --json
has requests length states positions repeated repeated_without others
same "$(field requests) $(field length) $(field repeated)" "36.0 4096 0.0" "a state for each length"
expect 0 "$neap" cache h.csv --states 1 --json
# 5 requests make 10 tokens again, 20 make 100, 3 make 101, 1 makes 500: (50 + 2000 + 303 + 500) / 36.
same "$(field repeated | cut -c1-7)" "79.25" "one state, for the longest"
expect 0 "$neap" cache h.csv --states 0 --json
same "$(field repeated)" "$(field repeated_without)" "no state"

expect 2 "$neap" cache
expect 2 "$neap" cache h.csv --states -1
expect 1 "$neap" cache none.csv
printf 'tokens,requests\n5,x\n' >bad.csv
expect 1 "$neap" cache bad.csv
says "bad.csv: line 2: '5,x' is not tokens,requests"
printf '0,7\n' >bad.csv
expect 1 "$neap" cache bad.csv
says "no request shares a token"
printf '99999999999,7\n' >bad.csv
expect 1 "$neap" cache bad.csv
expect 1 "$neap" cache /dev/zero
printf '5,1\n\0' >bad.csv
expect 1 "$neap" cache bad.csv
says "line 2"
expect 1 "$neap" cache .
says "Is a directory"
