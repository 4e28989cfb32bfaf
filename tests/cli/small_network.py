"""Trains a network of four hidden units on a table, by plain gradient descent in Python, beside what the command did.

    small_network.py write [--records N]     data.csv, and first.safetensors, the weights to begin with
    small_network.py compare METRICS WEIGHTS [--batch N] [--mixup ALPHA] [--balanced] [--keep-last]
    small_network.py moments                 whether what mixup draws has the moments of its distributions
"""

import argparse, json, math, random, struct
from collections import Counter

SEED, STREAM, HIDDEN, RATE, MASK = 5, 0x48, 4, 0.25, 0xFFFFFFFF

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

def mixing(alpha, epoch, record, records):
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

def write_data(records):
    random.seed(7)
    rows = [(random.gauss(k % 3, 1), random.gauss(k % 2, 1), "abc"[random.randrange(3)]) for k in range(records)]
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

def batches(count, args):
    """Of an epoch: without --keep-last whole ones alone."""
    ends = range(args.batch, count + 1, args.batch)
    whole = [range(end - args.batch, end) for end in ends]
    rest = range(len(whole) * args.batch, count)
    return whole + ([rest] if args.keep_last and rest else [])

def train(weights, steps, class_weights, args):
    """The loss of each step and its share of right answers."""
    w1, b1, w2, b2 = (weights[n] for n in ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"))
    records, lines = read_records(), []
    parts = batches(len(records), args)
    for step in range(steps):
        epoch, places = step // len(parts), parts[step % len(parts)]
        batch, total = [], 0
        for n in places:
            partner, share = mixing(args.mixup, epoch, n, len(records)) if args.mixup else (n, 1)
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
        lines.append((loss, right / len(batch)))
    return lines

def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]

parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("files", nargs="*")
parser.add_argument("--records", type=int, default=12)
parser.add_argument("--batch", type=int, default=6)
parser.add_argument("--mixup", type=float, default=0)
parser.add_argument("--balanced", action="store_true")
parser.add_argument("--keep-last", action="store_true")
args = parser.parse_args()
if args.task == "write":
    write_data(args.records)
elif args.task == "compare":
    weights, counts = read_weights("first.safetensors"), Counter(k for _, k in read_records())
    class_weights = [sum(counts.values()) / (3 * counts[c]) if args.balanced else 1 for c in range(3)]
    got = [(o["loss"], o["accuracy"]) for o in map(json.loads, open(args.files[0]))]
    wanted = train(weights, len(got), class_weights, args)
    assert all(abs(a - b) < 2e-6 for w, g in zip(wanted, got) for a, b in zip(w, g)) and got, (wanted, got)
    after = read_weights(args.files[1])
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
