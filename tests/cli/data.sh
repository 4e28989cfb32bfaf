# neap data: what there is, and each problem with its file.
source "$(dirname "$0")/common.bash"

corpus=$2/tests/fuzz/corpus/picture
mkdir -p set/a set/b
cp "$corpus/good-rgb.png" "$corpus/good-jpeg.jpg" "$corpus/good-rgba.png" set/a
cp "$corpus/good-palette.png" "$corpus/good-progressive-jpeg.jpg" set/b
expect 0 "$neap" data images:set,size=8 -o sheet.png --json
[ "$(field training_records)" = 4 ] && [ "$(field test_records)" = 1 ] || fail "records: $(cat out)"
[ "$(head -c 4 sheet.png | tail -c 3)" = PNG ] || fail "sheet.png is no PNG"
cp "$corpus/bad-cut.png" set/a/cut.png
cp "$corpus/bad-empty" set/b/nothing.jpg
expect 1 "$neap" data images:set,size=8
says "2 problems"
grep -q "set/a/cut.png: is a damaged PNG" out || fail "$(cat out)"
grep -q "set/b/nothing.jpg: is empty" out || fail "$(cat out)"
expect 1 "$neap" train --model lenet --data images:set,size=8 --batch 2
says "set/a/cut.png: is a damaged PNG"
expect 1 "$neap" data csv:gone.csv
says "gone.csv: cannot be opened"
printf 'a,label\n1,x\n2,y\n' >table.csv
expect 2 "$neap" data table.csv,label=label
says "data 'table.csv,label=label': the kind of data is missing; write csv:table.csv,label=label"
expect 2 "$neap" data set
says "the kind of data is missing; write images:set"
expect 2 "$neap" data gone.csv
says "data 'gone.csv': unknown source; the sources are cifar10:DIR, mnist:DIR"
expect 0 "$neap" data
grep -q "^images:DIR" out || fail "$(cat out)"
expect 2 "$neap" data synthetic -o none.png extra
