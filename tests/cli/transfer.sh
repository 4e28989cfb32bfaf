# Transfer learning: weights of another program, by its names, in a network with a new head that alone is trained on a
# folder of pictures.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
# write_weights FILE: tensors of torchvision's resnet18, by its names and in its shapes; and pictures of three classes.
cat >make.py <<'PY'
import json, random, struct, sys, zlib

random.seed(1)
shapes = {}
def norm(name, width):
    for what in ("weight", "bias", "running_mean", "running_var"):
        shapes[f"{name}.{what}"] = [width]
    shapes[f"{name}.num_batches_tracked"] = []
shapes["conv1.weight"] = [64, 3, 7, 7]
norm("bn1", 64)
before = 64
for stage, width in enumerate((64, 128, 256, 512), 1):
    for block in (0, 1):
        at = f"layer{stage}.{block}"
        shapes[f"{at}.conv1.weight"] = [width, before, 3, 3]
        norm(f"{at}.bn1", width)
        shapes[f"{at}.conv2.weight"] = [width, width, 3, 3]
        norm(f"{at}.bn2", width)
        if before != width:
            shapes[f"{at}.downsample.0.weight"] = [width, before, 1, 1]
            norm(f"{at}.downsample.1", width)
        before = width
shapes["fc.weight"], shapes["fc.bias"] = [1000, 512], [1000]

header, data = {}, bytearray()
for name, shape in shapes.items():
    begin, count, last = len(data), 1, name.rsplit(".", 1)[1]
    for size in shape:
        count *= size
    if last == "num_batches_tracked":
        data += struct.pack("<q", 7)
    elif last in ("weight", "running_var") and len(shape) == 1:
        data += struct.pack("<f", 1) * count
    else: # a pattern of 257 numbers is random enough
        deviation = (2 / max(1, count / shape[0])) ** 0.5 if len(shape) > 1 else 0.1
        numbers = struct.pack("<257f", *(random.gauss(0, deviation) for _ in range(257)))
        data += (numbers * (count // 257 + 1))[: 4 * count]
    header[name] = {"dtype": "I64" if last == "num_batches_tracked" else "F32", "shape": shape, "data_offsets": [begin, len(data)]}
text = json.dumps(header).encode()
open("resnet18.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)

def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

import os
for part, count in (("train", 12), ("test", 4)):
    for k, kind in enumerate(("red", "green", "blue")):
        os.makedirs(f"pictures/{part}/{kind}")
        for i in range(count):
            rows = b""
            for y in range(32):
                rows += b"\0" + bytes(random.randrange(80) + 150 * (c == k) for x in range(32) for c in range(3))
            png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0))
            png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
            open(f"pictures/{part}/{kind}/{i}.png", "wb").write(png)
PY
python3 make.py

run=("$neap" train --model resnet18 --data images:pictures,size=32 --batch 12 --threads 1 --seed 5)
names=(--init-map '*bn?.*=*norm?.*' --init-map '*downsample.0.*=*conv3.*,*downsample.1.*=*norm3.*'
  --init-map '*norm?.weight=*norm?.gamma,*norm?.bias=*norm?.beta,*.running_var=*.running_variance'
  --init-map 'layer?.0.*=stage?.block1.*,layer?.1.*=stage?.block2.*'
  --init-map 'conv1.*=stem.conv1.*,norm1.*=stem.norm1.*,fc.*=head.linear1.*')
head=(--freeze '*' --freeze '!head.*' --optimizer adamw --lr 0.01 --schedule constant)

expect 0 "${run[@]}" "${names[@]}" "${head[@]}" --epochs 4 --init resnet18.safetensors --out whole --json
weights=$(field weights_sha256)
python3 - out <<'PY' || fail "what was taken: $(cat out)"
import json, sys
r = json.load(open(sys.argv[1]))
i = r["initialisation"]
assert i["taken"] == 100 and i["missing"] == [], i
assert i["reshaped"] == ["head.linear1.weight [3, 512] (fc.weight [1000, 512])", "head.linear1.bias [3] (fc.bias [1000])"], i
assert len(i["unused"]) == 20 and all(n.endswith(".num_batches_tracked") for n in i["unused"]), i
assert r["frozen_parameters"] == 11689512 - 513000 and r["test_accuracy"] > 0.9, r
PY
peak=$(field planned_peak_bytes)
expect 0 "$neap" evaluate whole --json
same "$(field weights_sha256)" "$weights" "the weights of the checkpoint"
expect 0 "$neap" predict whole --data images:pictures/test/red -o red.csv
grep -q red red.csv || fail "no names in $(head -2 red.csv)"

# Every budget has the same bits, and so has a run that was stopped. What is frozen needs no gradients and no states.
expect 0 "${run[@]}" "${names[@]}" "${head[@]}" --epochs 4 --init resnet18.safetensors --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
expect 0 "${run[@]}" "${names[@]}" "${head[@]}" --epochs 2 --init resnet18.safetensors --out part
grep -q "^weights       100 tensors from resnet18.safetensors; the others start at random" out || fail "$(cat out)"
grep -q "^  other shape head.linear1.weight \[3, 512\] (fc.weight \[1000, 512\])" out || fail "$(cat out)"
grep -q "^  unused .* and 16 more" out || fail "$(cat out)"
grep -q "^frozen        \*,!head.\*: 11176512 parameters" out || fail "$(cat out)"
expect 0 "$neap" train --resume part --epochs 4 --json
same "$(field weights_sha256)" "$weights" "the weights of a run that went on"
same "$("$json_field" settings.freeze <part/state.json)" '*,!head.*' "what the checkpoint says is frozen"
expect 2 "$neap" train --resume part --epochs 5 --freeze 'stem.*'
says freeze
expect 0 "${run[@]}" --optimizer adamw --steps 1 --json --evaluate off
[ "$(field planned_peak_bytes)" -gt $((peak * 2)) ] || fail "freezing saves too little: $peak of $(field planned_peak_bytes)"

# A run's folder as what to begin with, for other classes: the head alone is drawn anew.
cp -r pictures more && for part in train test; do cp -r more/$part/red more/$part/scarlet; done
expect 0 "$neap" train --model resnet18 --data images:more,size=32 --batch 12 --threads 1 --steps 1 --init whole --json
says "images:more,size=32, shuffled, not augmented"
python3 - out <<'PY' || fail "what was taken: $(cat out)"
import json, sys
i = json.load(open(sys.argv[1]))["initialisation"]
assert i["taken"] == 100 and i["missing"] == [] and i["unused"] == [] and len(i["reshaped"]) == 2, i
PY

# What is wrong is said, and nothing is trained.
expect 1 "${run[@]}" --steps 1 --init pictures
says "pictures: is a folder without state.json"
expect 1 "${run[@]}" --steps 1 --init resnet18.safetensors
says "resnet18.safetensors: none of its 122 tensors"
expect 2 "${run[@]}" --steps 1 --init resnet18.safetensors --init-map 'fc*=head'
says "map of names: 'fc*=head'"
expect 2 "${run[@]}" --steps 1 --init-map 'a=b'
says "--init"
expect 2 "${run[@]}" --steps 1 --freeze 'trunk.*'
says "'trunk.*'"
