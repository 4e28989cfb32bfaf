# Records mixed in pairs: two epochs of a small network beside the same arithmetic in Python, and the bits at every budget, with
# micro-batches and after going on.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
cat >oracle.py <<'PY'
import json, math, random, struct, sys
from collections import Counter

SEED, ALPHA, STREAM, RECORDS, BATCH, HIDDEN, RATE, MASK = 5, 0.4, 0x48, 12, 6, 4, 0.25, 0xFFFFFFFF

def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]

def philox(seed, stream, counter):
    """Philox4x32-10 (Salmon and others 2011)."""
    c = [counter & MASK, counter >> 32, stream & MASK, stream >> 32]
    for r in range(10):
        k0, k1 = (seed + r * 0x9E3779B9) & MASK, ((seed >> 32) + r * 0xBB67AE85) & MASK
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & MASK, (a >> 32) ^ c[3] ^ k1, a & MASK]
    return c

def mixing(alpha, epoch, record, records=RECORDS):
    counter = record << 8
    def draw():
        nonlocal counter
        counter += 1
        return philox(SEED, STREAM << 56 | epoch, counter - 1)
    def uniform(word):
        return (word + 0.5) / 2**32
    def log_gamma():
        """Marsaglia and Tsang 2000."""
        d = (alpha + 1 if alpha < 1 else alpha) - 1 / 3
        while True:
            w = draw()
            x = math.sqrt(-2 * math.log(uniform(w[0]))) * math.cos(2 * math.pi * uniform(w[1]))
            v = (1 + x / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log(uniform(w[2])) < x * x / 2 + d - d * v + d * math.log(v):
                return math.log(d * v) + (math.log(uniform(w[3])) / alpha if alpha < 1 else 0)
    partner = draw()[0] * records >> 32
    a, b = log_gamma(), log_gamma()
    return partner, f32(1 / (1 + math.exp(b - a)))

def write_data():
    random.seed(7)
    rows = [(random.gauss(k % 3, 1), random.gauss(k % 2, 1), "abc"[random.randrange(3)]) for k in range(RECORDS)]
    open("data.csv", "w").write("\n".join(["x,y,label", *(f"{x!r},{y!r},{k}" for x, y, k in rows), ""]))
    shapes = {"linear1.weight": [HIDDEN, 2], "linear1.bias": [HIDDEN], "linear2.weight": [3, HIDDEN], "linear2.bias": [3]}
    header, data = {}, b""
    for name, shape in shapes.items():
        values = [random.gauss(0, 0.7) for _ in range(math.prod(shape))]
        end = len(data) + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), end]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    open("first.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)

def read_weights(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    def tensor(entry):
        begin, end = entry["data_offsets"]
        values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin : 8 + size + end])
        rows = entry["shape"][0]
        columns = len(values) // rows
        return list(values) if len(entry["shape"]) == 1 else [list(values[i * columns : (i + 1) * columns]) for i in range(rows)]
    return {n: tensor(header[n]) for n in ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")}

def read_records():
    rows = [line.split(",") for line in open("data.csv").read().split()[1:]]
    columns = [[float(r[i]) for r in rows] for i in range(2)]
    means = [sum(c) / len(c) for c in columns]
    scales = [math.sqrt(sum((v - m) ** 2 for v in c) / len(c)) for c, m in zip(columns, means)]
    return [([(float(r[i]) - means[i]) / scales[i] for i in range(2)], "abc".index(r[2])) for r in rows]

def train(weights, steps, class_weights):
    """Plain gradient descent; the loss of each step and its share of right answers."""
    w1, b1, w2, b2 = (weights[n] for n in ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"))
    records, lines = read_records(), []
    for step in range(steps):
        epoch, first = step * BATCH // RECORDS, step * BATCH % RECORDS
        batch, total = [], 0
        for n in range(first, first + BATCH):
            partner, share = mixing(ALPHA, epoch, n)
            (x, k), (y, m) = records[n], records[partner]
            target = [share * (c == k) + (1 - share) * (c == m) for c in range(3)]
            batch.append(([share * a + (1 - share) * b for a, b in zip(x, y)], target, k if share >= 0.5 else m))
            total += sum(t * w for t, w in zip(target, class_weights))
        g1, gb1, g2, gb2 = [[0, 0] for _ in range(HIDDEN)], [0] * HIDDEN, [[0] * HIDDEN for _ in range(3)], [0] * 3
        loss = right = 0
        for x, target, larger in batch:
            hidden = [max(0, b + sum(w * v for w, v in zip(row, x))) for row, b in zip(w1, b1)]
            logits = [b + sum(w * v for w, v in zip(row, hidden)) for row, b in zip(w2, b2)]
            norm = math.log(sum(map(math.exp, logits)))
            q = [t * w / total for t, w in zip(target, class_weights)]
            loss += sum(s * (norm - z) for s, z in zip(q, logits))
            right += logits.index(max(logits)) == larger
            delta = [math.exp(z - norm) * sum(q) - s for z, s in zip(logits, q)]
            for c in range(3):
                gb2[c] += delta[c]
                for h in range(HIDDEN):
                    g2[c][h] += delta[c] * hidden[h]
            for h in range(HIDDEN):
                back = sum(delta[c] * w2[c][h] for c in range(3)) * (hidden[h] > 0)
                gb1[h] += back
                for i in range(2):
                    g1[h][i] += back * x[i]
        for w, g in ((w1, g1), (w2, g2)):
            for row, slope in zip(w, g):
                row[:] = [a - RATE * b for a, b in zip(row, slope)]
        b1[:] = [a - RATE * b for a, b in zip(b1, gb1)]
        b2[:] = [a - RATE * b for a, b in zip(b2, gb2)]
        lines.append((loss, right / BATCH))
    return lines

def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]

if sys.argv[1] == "write":
    write_data()
elif sys.argv[1] == "compare":
    weights = read_weights("first.safetensors")
    class_weights = [1, 1, 1]
    if sys.argv[4] == "balanced":
        counts = Counter(k for _, k in read_records())
        class_weights = [RECORDS / (len(counts) * counts[c]) for c in range(3)]
    wanted = train(weights, 4, class_weights)
    got = [(o["loss"], o["accuracy"]) for o in map(json.loads, open(sys.argv[2]))]
    assert all(abs(a - b) < 2e-6 for w, g in zip(wanted, got) for a, b in zip(w, g)) and len(got) == 4, (wanted, got)
    after = read_weights(sys.argv[3])
    assert all(max(abs(a - b) for a, b in zip(flat(weights[n]), flat(after[n]))) < 2e-6 for n in weights), (weights, after)
else:
    # Beta(alpha, alpha) has mean 1/2 and variance 1 / (4 (2 alpha + 1)); partners are drawn evenly.
    for alpha in (0.05, 0.4, 1, 3):
        drawn = [mixing(alpha, 0, n, 8) for n in range(4000)]
        shares, count = [s for _, s in drawn], len(drawn)
        variance = 1 / (4 * (2 * alpha + 1))
        assert abs(sum(shares) / count - 0.5) < 4 * math.sqrt(variance / count), alpha
        assert abs(sum((s - 0.5) ** 2 for s in shares) / count / variance - 1) < 0.1, alpha
        assert all(abs(v - count / 8) < 4 * math.sqrt(count / 8) for v in Counter(p for p, _ in drawn).values()), alpha
PY
python3 oracle.py write
python3 oracle.py moments || fail "the shares are not those of Beta(alpha, alpha)"
run=("$neap" train --model mlp-4 --data csv:data.csv,test=data.csv --batch 6 --threads 1 --momentum 0 --weight-decay 0 --lr 0.25 --schedule
  constant --shuffle off --seed 5 --mixup 0.4 --init first.safetensors)
expect 0 "${run[@]}" --steps 4 --out run --metrics a.jsonl --json
weights=$(field weights_sha256)
python3 oracle.py compare a.jsonl run/weights-*.safetensors plain || fail "the steps are not those of the same arithmetic"
expect 0 "${run[@]}" --steps 4 --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
expect 0 "${run[@]}" --steps 3 --out part
expect 0 "$neap" train --resume part --steps 4 --json
same "$(field weights_sha256)" "$weights" "the weights of a run that went on"
expect 2 "$neap" train --resume part --steps 5 --mixup 0.5
says mixup
for classes in plain balanced; do
  more=(--metrics b.jsonl --force)
  [ $classes = plain ] || more+=(--class-weights balanced)
  for micro in 6 2; do
    expect 0 "${run[@]}" --steps 4 --micro-batch $micro --out parts "${more[@]}"
    python3 oracle.py compare b.jsonl parts/weights-*.safetensors $classes || fail "micro-batches of $micro, class weights $classes"
  done
done

# Pictures, which are numbers then, cropped and flipped as they are without; evaluations are plain.
run=("$neap" train --model lenet --data synthetic:images=64 --image 3x16x16 --batch 16 --threads 1 --mixup 1)
expect 0 "${run[@]}" --steps 5 --augment on --out pictures --json
weights=$(field weights_sha256) loss=$(field test_loss)
expect 0 "$neap" evaluate pictures --json
same "$(field test_loss)" "$loss" "the loss of the evaluation"
expect 0 "${run[@]}" --steps 5 --augment on --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights of pictures within the least budget"

# Pictures in files, which are read ahead: what npz has of the same pixels gives the same bits.
python3 - <<'PY'
import io, os, random, struct, zipfile, zlib
random.seed(3)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def npy(kind, shape, data):
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data
with zipfile.ZipFile("same.npz", "w") as out:
    for part, name in (("train", "train"), ("test", "test")):
        pixels, labels = b"", []
        for n in range(20):
            label, rows = n % 2, [bytes(random.randrange(256) for _ in range(28)) for _ in range(28)]
            os.makedirs(f"pictures-in-files/{part}/c{label}", exist_ok=True)
            data = chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0))
            data += chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) + chunk(b"IEND", b"")
            open(f"pictures-in-files/{part}/c{label}/{n:02}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + data)
            pixels += b"".join(rows)
            labels.append(label)
        out.writestr(f"x_{name}.npy", npy("|u1", (20, 28, 28), pixels))
        out.writestr(f"y_{name}.npy", npy("<i4", (20,), struct.pack("<20i", *labels)))
PY
run=("$neap" train --model lenet --batch 4 --threads 2 --epochs 2 --mixup 0.3 --augment off --json)
expect 0 "${run[@]}" --data images:pictures-in-files,size=28
weights=$(field weights_sha256)
expect 0 "${run[@]}" --data npz:same.npz
same "$(field weights_sha256)" "$weights" "the weights of pictures in files and in arrays"

# What has no class each is not mixed.
expect 2 "$neap" train --model gpt-1x32x2 --data synthetic --steps 1 --mixup 0.2
says "--mixup"
expect 2 "$neap" train --model unet --data synthetic --steps 1 --mixup 0.2
says "a class for each pixel"
expect 2 "$neap" train --model mlp-4 --data csv:data.csv,task=regression,label=x --steps 1 --mixup 0.2
says "values"
expect 2 "${run[@]}" --steps 1 --mixup -1
says mixup
