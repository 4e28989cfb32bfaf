# A run that goes on knows its data again: values that changed at equal counts are named and refused; data that were moved, and
# checkpoints without digests, are not.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
cat >arrays.py <<'PY'
"""Arrays of NumPy's files, without NumPy: lists of numbers of one dtype."""
import ast
import struct
import zipfile


def packed(dtype, shape, values):
    head = repr({"descr": dtype, "fortran_order": False, "shape": tuple(shape)}).ljust(117) + "\n"
    kind = {"<f8": "d", "<i4": "i", "|u1": "B"}[dtype]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{kind}", *values)


def unpacked(data):
    start = 10 + struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:start].decode())
    kind, size = {"<f8": ("d", 8), "<i4": ("i", 4), "|u1": ("B", 1)}[head["descr"]]
    return head["descr"], head["shape"], list(struct.unpack(f"<{(len(data) - start) // size}{kind}", data[start:]))


def save(path, arrays):
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            file.writestr(f"{name}.npy", packed(*array))


def change(path, name, place):
    """Lets two neighbours that differ change places, which leaves their mean."""
    with zipfile.ZipFile(path) as file:
        arrays = {entry[:-4]: unpacked(file.read(entry)) for entry in file.namelist()}
    values = arrays[name][2]
    assert values[place] != values[place + 1]
    values[place], values[place + 1] = values[place + 1], values[place]
    save(path, arrays)
PY
mkdir data
python3 - <<'PY'
import json
import random
from arrays import packed, save

random.seed(3)
rows = [(round(random.gauss(0, 1), 3), random.choice(["red", "blue"]), random.choice("ab")) for _ in range(40)]
table = "number,word,label\n" + "".join(f"{x},{w},{l}\n" for x, w, l in rows)
open("data/table.csv", "w").write(table)
labels = {"y_train": ("<i4", [32], [i % 3 for i in range(32)]), "y_test": ("<i4", [8], [i % 3 for i in range(8)])}
numbers = {part: ("<f8", [n, 6], [random.random() for _ in range(n * 6)]) for part, n in (("x_train", 32), ("x_test", 8))}
bytes_ = {part: ("|u1", [n, 8, 8], [random.randrange(249) for _ in range(n * 64)]) for part, n in (("x_train", 32), ("x_test", 8))}
save("data/rows.npz", {**numbers, **labels})
save("data/images.npz", {**bytes_, **labels})
open("data/ids.npy", "wb").write(packed("<i4", [200], [i % 17 for i in range(200)]))
open("data/words.txt", "w").write("a line of text that is learned\n" * 20)
with open("data/chat.jsonl", "w") as file:
    for i in range(24):
        turns = [{"role": "user", "content": f"what is {i}?"}, {"role": "assistant", "content": f"it is {i * i % 10}"}]
        file.write(json.dumps({"messages": turns}) + "\n")
PY
cp -r data kept
# change NAME: another value of the same length, by kind.
change() {
  python3 - "$1" <<'PY'
import sys
from arrays import change, packed, unpacked

name = sys.argv[1]
if name.endswith(".npz"):
    change(f"data/{name}", "x_train", 21)
elif name.endswith(".npy"):
    kind, shape, ids = unpacked(open(f"data/{name}", "rb").read())
    ids[7] = 3
    open(f"data/{name}", "wb").write(packed(kind, shape, ids))
else:
    text = open(f"data/{name}").read()
    was, now = {"table.csv": ("red", "blue"), "words.txt": ("learned", "leaving"), "chat.jsonl": ("it is 4", "it is 5")}[name]
    open(f"data/{name}", "w").write(text.replace(was, now, 1))
PY
}
# run NAME MODEL SOURCE OPTION...: changed data are refused, the first ones are taken.
run() {
  local name=$1 model=$2 source=$3
  shift 3
  expect 0 "$neap" train --model "$model" --data "$source" --batch 4 --steps 2 --threads 1 --schedule constant --out "run-$name" "$@"
  grep -q '"data": {' "run-$name/state.json" || fail "$name: no digests"
  change "$name"
  expect 2 "$neap" train --resume "run-$name" --steps 3
  says "the training records of ${source%%:*}:"
  says "are not those that this run began with"
  quiet
  cp "kept/$name" "data/$name"
  expect 0 "$neap" train --resume "run-$name" --steps 3
}
run table.csv mlp-8 csv:data/table.csv,test=kept/table.csv
run rows.npz mlp-8 npz:data/rows.npz
run images.npz mlp-8 npz:data/images.npz
run ids.npy gpt-1x8x2 "tokens:data/ids.npy,test=kept/ids.npy" --length 8
run words.txt gpt-1x8x2 text:data/words.txt,tokens=bytes,test=kept/words.txt --length 8
run chat.jsonl gpt-1x8x2 chat:data/chat.jsonl,tokens=bytes --length 160

# Labels, and the test part.
python3 -c 'from arrays import change; change("data/rows.npz", "y_train", 4)'
expect 2 "$neap" train --resume run-rows.npz --steps 4
says "the training records"
cp kept/rows.npz data/rows.npz
python3 -c 'from arrays import change; change("data/rows.npz", "x_test", 4)'
expect 2 "$neap" train --resume run-rows.npz --steps 4
says "the test records"
cp kept/rows.npz data/rows.npz

# What was moved is the same.
mv data/rows.npz data/moved.npz
expect 0 "$neap" train --resume run-rows.npz --data npz:data/moved.npz --steps 4

# A checkpoint without digests goes on, and has them from then on.
cp -r run-rows.npz old
python3 - <<'PY'
import re

text = open("old/state.json").read()
open("old/state.json", "w").write(re.sub(r'"data": \{[^}]*\},\s*', "", text))
PY
! grep -q '"data": {' old/state.json || fail "the digests are still there"
digest=$({ "$neap" export old -o unsealed 2>&1 || true; } | sed -n 's/.*its content has the SHA-256 \([0-9a-f]*\), .*/\1/p')
sed -i "s/\"state_sha256\": \"[0-9a-f]*\"/\"state_sha256\": \"$digest\"/" old/state.json
expect 0 "$neap" train --resume old --data npz:data/moved.npz --steps 5
! grep -qi "digest\|changed" err || fail "it says something of data that are the same"
grep -q '"data": {' old/state.json || fail "no digests"

# Pictures in files.
python3 - <<'PY'
import os
import random
import struct
import zlib

random.seed(4)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


for part in ("train", "test"):
    for word in ("cat", "dog"):
        os.makedirs(f"photos/{part}/{word}")
        for i in range(6):
            rows = b"".join(b"\0" + bytes(random.randrange(256) for _ in range(48)) for _ in range(16))
            with open(f"photos/{part}/{word}/{i}.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)))
                file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
expect 0 "$neap" train --model wrn-10-1 --data images:photos,size=16 --batch 4 --steps 2 --threads 1 --schedule constant --out run-photos
swap() { # two pictures of one class, which leaves the mean of all
  mv photos/train/cat/3.png one.png
  mv photos/train/cat/4.png photos/train/cat/3.png
  mv one.png photos/train/cat/4.png
}
swap
expect 2 "$neap" train --resume run-photos --steps 3
says "the training records of images:"
swap
expect 0 "$neap" train --resume run-photos --steps 3
