"""Writes small files into the folder where it runs, under the names that README.md and docs/command.md use."""

import json, random, struct, zlib
from pathlib import Path

draw = random.Random(1)


def picture(path, side=32):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + draw.randbytes(3 * side) for _ in range(side))
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def safetensors(path, shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + struct.pack("<f", 0.01) * (at // 4))


def table(path, label, values):
    rows = [f"{draw.random():.3f},{draw.random():.3f},{value}" for value in values]
    path.write_text("\n".join([f"size,age,{label}", *rows]) + "\n")


for name in ("cats", "dogs", "horses"):
    for i in range(30):
        picture(Path("photos", name, f"{i}.png"))
for i in range(4):
    picture(Path("new", f"{i}.png"))
table(Path("wines.csv"), "cultivar", [("Barolo", "Grignolino", "Barbera")[i % 3] for i in range(160)])
table(Path("houses.csv"), "price", [1000 * (i % 7) + 500 for i in range(160)])
Path("book.txt").write_text("".join(f"It was line {i} of a book. " for i in range(400)))
turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
Path("chat.jsonl").write_text((json.dumps({"messages": turns}) + "\n") * 40)
Path("pairs").mkdir()
for language, words in (("de", ["ein", "Hund", "Haus", "rot"]), ("en", ["a", "dog", "house", "red"])):
    lines = [" ".join(words[(i + k) % 4] for k in range(3 + i % 4)) + "\n" for i in range(200)]
    for name, count in ((f"pairs/train.{language}", 200), (f"pairs/val.{language}", 20), (f"lines.{language}", 4)):
        Path(name).write_text("".join(lines[:count]))
names = {"conv1.weight": [64, 3, 7, 7], "bn1.weight": [64], "layer1.0.conv1.weight": [64, 64, 3, 3]}
safetensors(Path("resnet18.safetensors"), {**names, "layer2.0.downsample.0.weight": [128, 64, 1, 1]})
Path("buffers.csv").write_text("id,lower,upper,size\n0,0,3,64\n1,1,4,128\n2,3,6,64\n")
