# Offsets for buffers from a CSV file.
source "$(dirname "$0")/common.bash"

printf 'id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,9,21,4\ne,0,21,4\n' >in.csv
expect 0 "$neap" layout in.csv
expect 0 "$neap" layout in.csv -o out.csv --json
has buffers height lower_bound seconds valid proven_optimal
same "$(field buffers) $(field height) $(field lower_bound) $(field valid)" "5 12 12 true" "the layout"
same "$(head -1 out.csv)" "id,lower,upper,size,offset" "the heading"
same "$(cut -d, -f1-4 out.csv)" "$(cat in.csv)" "the buffers"

expect 0 "$neap" layout in.csv --capacity 12
expect 3 "$neap" layout in.csv --capacity 11 -o none.csv
quiet
says "layout: no layout exists within a capacity of 11 bytes"
says "--capacity 12"
[ ! -e none.csv ] || fail "a file was written for a layout that was not found"
expect 3 "$neap" layout in.csv --capacity 11 --json
same "$(field valid)" false "over the capacity"

# Times below 0, and blanks around what is said.
printf 'id, lower, upper, size\r\na, -3, 0, 4\r\n b c ,0,6 , 4\r\nc,-3,6,4\r\n' >blanks.csv
expect 0 "$neap" layout blanks.csv -o out.csv --json
same "$(field buffers) $(field height) $(field valid)" "3 8 true" "the layout"
same "$(cut -d, -f1-4 out.csv | tr '\n' ' ')" "id,lower,upper,size a,-3,0,4 b c,0,6,4 c,-3,6,4 " "the buffers"
printf 'id,lower,upper,size\na,-9223372036854775808,9223372036854775807,4\nb,-9223372036854775808,0,4\nc,0,9223372036854775807,4\n' >far.csv
expect 0 "$neap" layout far.csv --json
same "$(field height)" 8 "buffers that live as long as can be said"

# `-o -`: the buffers on standard output, and nothing else.
expect 0 "$neap" layout in.csv -o out.csv
expect 0 "$neap" layout in.csv -o -
cmp out out.csv || fail "the layout on standard output"
[ ! -e - ] || fail "a file of the name -"
expect 2 "$neap" layout in.csv -o - --json

bad() { # bad LINE: is refused with its place
  printf 'id,lower,upper,size\na,0,3,4\n%s\n' "$1" >bad.csv
  expect 1 "$neap" layout bad.csv
  quiet
  says bad.csv
}
bad 'b,3'
bad 'b,9,3,4'
bad 'b,3,9,-4'
bad 'b,3,9,x'
bad 'b,3,9,99999999999999999999'
bad 'b,-99999999999999999999,9,4'
bad 'b,3,9,4,5'
bad ' a ,3,9,4'
says "line 3: the id 'a' is used twice"
printf 'size,lower,id\t,upper\n1,0,b,3\n\n1,0,a,3\n1,0,b,3\n1,0,a,3\n' >bad.csv
expect 1 "$neap" layout bad.csv -o none.csv
says "line 5: the id 'b' is used twice"
[ ! -e none.csv ] || fail "a file was written for buffers that are not told apart"
printf 'id,lower,upper,size\na,0,3,1\0002\n' >bad.csv
expect 1 "$neap" layout bad.csv
says "line 2"
# A line of any length is one line.
{ printf 'id,lower,upper,size\n'; printf 'a%.0s' $(seq 5000); printf ',0,3,4%5000s\nb,1,2,8\n' ''; } >long.csv
expect 0 "$neap" layout long.csv --json
same "$(field buffers) $(field height)" "2 12" "a long line"
printf 'name,size\na,1\n' >bad.csv
expect 1 "$neap" layout bad.csv
# Heights that do not fit the output are refused.
printf 'id,lower,upper,size\na,0,3,9223372036854775807\nb,0,3,9223372036854775807\n' >bad.csv
expect 1 "$neap" layout bad.csv --json
quiet
says bad.csv

# A file without an end of a line.
expect 1 "$neap" layout /dev/zero
says "line 1: contains a zero byte"
{ printf 'id,lower,upper,size\na,0,3,4\n'; head -c 70000 /dev/zero | tr '\0' x; } >bad.csv
expect 1 "$neap" layout bad.csv
says "line 3: has more than 65535 bytes"
