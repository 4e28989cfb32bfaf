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

# Parts by their names, in any case; what is not read is counted by its ending.
# row OBJECT BECAME COUNT: the report has it.
row() { grep -qF "{\"object\": \"$1\", \"became\": \"$2\", \"count\": $3," out || fail "no row '$1', '$2', $3: $(cat out)"; }
fill() { # fill FOLDER...: one picture each
  local at
  for at; do mkdir -p "$at" && cp "$corpus/good-rgb.png" "$at/one.png"; done
}
for names in "Train Test" "Training Testing" "training val" "train testing" "train valid" "TRAIN Validation" "train val" "train TEST"; do
  read -r train test <<<"$names"
  rm -rf parts && fill parts/$train/a parts/$train/b parts/$test/a
  expect 0 "$neap" data images:parts --json
  same "$(field training_records) $(field test_records)" "2 1" "$names"
  row "$train" "the training part" 2
  row "$test" "the test part" 1
done
rm -rf parts && fill parts/train/a parts/train/b parts/Valid/a parts/test/b parts/extra/a parts/train
expect 0 "$neap" data images:parts --json
row Valid "the test part" 1
row test "another test part, left out" null
row extra "folders beside the parts, left out" null
row parts/train "pictures beside the folders of classes, left out" 1
expect 0 "$neap" data images:parts,test=TEST --json
row test "the test part" 1
rm -rf parts && fill parts/a parts/b parts/test/b
expect 0 "$neap" data images:parts --json
row test "the test part" 1
rm -rf parts && fill parts/valid parts/invalid parts/invalid/2
expect 0 "$neap" data images:parts --json
row valid "a class, though it is named like a part" null
rm -rf parts && fill parts/training parts/cooking
expect 0 "$neap" data images:parts --json
! grep -q "the training part" out || fail "a class is a part: $(cat out)"
rm -rf parts && fill parts/val/a parts/test/a
expect 1 "$neap" data images:parts
says "parts: has no folder 'train', only 'test'"
rm -rf parts && fill parts/train/a parts/train/b parts/Train/a
expect 1 "$neap" data images:parts
says "has two folders for one part, 'Train' and 'train'"

rm -rf left && fill left/a left/b
cp "$corpus/good-jpeg.jpg" left/a/phone.JFIF
cp "$corpus/good-turned.jpg" left/b/turned.jpg
touch left/a/1.HEIC left/b/2.heic left/b/3.bmp left/b/notes.txt left/b/README
expect 0 "$neap" data images:left,size=8
grep -q "pictures that are not read, left out: .heic (2), .bmp (1)" out || fail "$(cat out)"
grep -q ".heic: such as left/a/1.HEIC; convert them to PNG or JPEG" out || fail "$(cat out)"
grep -q "other files, left out: no ending (1), .txt (1)" out || fail "$(cat out)"
grep -q "applied: pictures that are not stored upright: orientation (EXIF) (1)" out || fail "$(cat out)"
expect 0 "$neap" data images:left,size=8 --json
row .heic "pictures that are not read, left out" 2
expect 0 "$neap" train --model mlp-4 --data images:left,size=8 --batch 2 --steps 1 --out left-run
grep -q "pictures that are not read, left out: .heic (2), .bmp (1)" out || fail "$(cat out)"
expect 0 "$neap" predict left-run --data images:left -o left.csv
grep -q "pictures that are not read, left out: .heic (2), .bmp (1)" out || fail "$(cat out)"
rm left/b/*.png left/b/*.jpg
expect 1 "$neap" data images:left
grep -q "left/b: has no pictures (.png, .jpg, .jpeg.*), but 1 .heic, 1 .bmp, 1 without an ending, 1 .txt; add some" out || fail "$(cat out)"

# What a folder without pictures has, is what lies in it, not in those before it.
mkdir left/d && touch left/d/notes.txt
rm left/b/*
expect 1 "$neap" data images:left
grep -qE "left/b: has no pictures \(.png, .jpg, .jpeg[^)]*\); add some" out err || fail "$(cat out err)"
grep -qE "left/d: has no pictures \(.png, .jpg, .jpeg[^)]*\), but 1 .txt; add some" out err || fail "$(cat out err)"

# Folders in folders of classes are told; where they look like parts, that, too.
rm -rf parts && fill parts/dev/cat parts/dev/dog parts/eval/cat parts/eval/dog
expect 0 "$neap" data images:parts
grep -qF "a class, with all pictures in its folders cat, dog: dev (2), eval (2)" out || fail "$(cat out)"
grep -qF "if these are parts of the data, name them train and test" out || fail "$(cat out)"

# A flipped bit of an array that is not compressed; numbers of pictures; parts of a folder of conversations.
npz=$2/tests/fuzz/corpus/npz
expect 0 "$neap" data npz:"$npz"/good-keras.npz
cp "$npz"/good-keras.npz flipped.npz
printf '\x7f' | dd of=flipped.npz bs=1 seek=205 conv=notrunc status=none
! cmp -s flipped.npz "$npz"/good-keras.npz || fail "nothing is flipped"
expect 1 "$neap" data npz:flipped.npz
says "flipped.npz: entry 'x_train.npy' is damaged"
expect 2 "$neap" data npz:"$npz"/good-medmnist.npz,standardise=off
says "standardise=off has no effect on images: bytes always are"
mkdir talks
for part in train validation test; do
  for i in 1 2 3; do echo "{\"prompt\": \"$part $i\", \"completion\": \"yes\"}"; done >talks/$part.jsonl
done
expect 0 "$neap" data chat:talks,tokens=bytes --json
same "$(field test_records)" 3 "the test part of a folder of conversations"
row test.jsonl "another test part, left out" null
