# Files that are missing, cut off, altered or too large: a message that names them, no result, no crash.
source "$(dirname "$0")/common.bash"

expect 0 "$neap" graph "${small[@]}" -o g.json
expect 0 "$neap" plan g.json --budget 85% -o p.json

refused() { # refused FILE COMMAND...
  local file=$1
  shift
  expect 1 "$@"
  quiet
  says "$file"
}
refused missing.json "$neap" plan missing.json
refused missing.json "$neap" show missing.json
refused missing.json "$neap" check g.json missing.json
refused missing.csv "$neap" layout missing.csv
refused "Is a directory" "$neap" plan .
refused "Is a directory" "$neap" layout .
refused missing "$neap" train --resume missing
refused "no/such/folder" "$neap" graph "${small[@]}" -o no/such/folder/g.json
refused "no/such/folder" "$neap" plan g.json -o no/such/folder/p.json
refused "no/such/folder" "$neap" show g.json -o no/such/folder/s.svg

# A link stays one, and a file its mode; what standard output goes to is written behind what is there.
mkdir store
echo old >store/p.json
chmod 640 store/p.json
ln -s store/p.json link.json
ln -s new.json dangling.json
ln -s /proc/self/fd/1 output
for link in link.json dangling.json output; do
  "$neap" plan g.json --budget 85% --json -o $link >told.json
  [ -L $link ] || fail "$link is no link any more"
done
cmp p.json store/p.json
cmp p.json new.json
[ "$(stat -c %a store/p.json)" = 640 ] || fail "store/p.json has another mode"
head -c "$(stat -c %s p.json)" told.json | cmp - p.json
tail -n 1 told.json | grep -q '"feasible": true' || fail "the report is not behind the plan"

: >empty.json
refused empty.json "$neap" plan empty.json
refused empty.json "$neap" check g.json empty.json
size=$(stat -c %s g.json)
for part in 1 10 50 90 99; do
  head -c $((size * part / 100)) g.json >cut.json
  refused cut.json "$neap" plan cut.json
done
head -c 300 p.json >cut.json
refused cut.json "$neap" check g.json cut.json
head -c 100000 /dev/urandom >noise.json
refused noise.json "$neap" plan noise.json
refused noise.json "$neap" check g.json noise.json
refused p.json "$neap" plan p.json # another format
refused g.json "$neap" check g.json g.json

altered() { # altered SED-EXPRESSION NAMED: of the graph, the first place only
  sed -zE "s/$1/$2/" g.json >altered.json
  ! cmp -s g.json altered.json || fail "'$1' changed nothing"
  refused "$3" "$neap" plan altered.json
}
altered '"version": *1' '"version": 3' version
altered '"format": *"[^"]*"' '"format": "another"' format
altered '"bytes": *[0-9]+' '"bytes": -1' bytes
altered '"bytes": *[0-9]+' '"bytes": "many"' bytes
altered '"bytes": *[0-9]+' '"bytes": 9223372036854775807' altered.json
altered '"role": *"[^"]*"' '"role": "guest"' role
altered '"inputs": *\[\s*[0-9]+' '"inputs": [123456789' inputs

# Any byte may be wrong: refused or read, never a crash.
for at in $(seq 7 $((size / 60)) $((size - 1))); do
  cp g.json flipped.json
  printf '\x1b' | dd of=flipped.json bs=1 seek="$at" conv=notrunc status=none
  status=0
  "$neap" plan flipped.json --budget max >out 2>err || status=$?
  [ $status -le 1 ] || fail "a wrong byte at $at ended with $status"
done

# Names may hold anything; a terminal and a picture get no control characters.
sed 's/"name": *"[^"]*"/"name": "a\\u001b]0;b\\u0007"/' g.json > escapes.json
expect 0 "$neap" plan escapes.json --budget max
! grep -q $'\x1b' out || fail "an escape sequence reaches the terminal"
expect 0 "$neap" show escapes.json --budget max -o escapes.svg
! grep -q $'\x1b' out escapes.svg || fail "an escape sequence reaches the terminal or the picture"
sed 's/"format": *"[^"]*"/"format": "\\u001b[31m"/' g.json > escapes.json
expect 1 "$neap" plan escapes.json --budget max
! grep -q $'\x1b' err || fail "an escape sequence reaches the terminal in a message"
