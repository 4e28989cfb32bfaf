# Records mixed in pairs: two epochs of a small network beside the same arithmetic in Python, and the bits at every budget, with
# micro-batches and after going on.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
oracle() { python3 "$source/tests/cli/small_network.py" "$@"; }
oracle write
oracle moments || fail "the shares are not those of Beta(alpha, alpha)"
run=("$neap" train --model mlp-4 --data csv:data.csv,test=data.csv --batch 6 --threads 1 --momentum 0 --weight-decay 0 --lr 0.25 --schedule
  constant --shuffle off --seed 5 --mixup 0.4 --init first.safetensors)
expect 0 "${run[@]}" --steps 4 --out run --metrics a.jsonl --json
weights=$(field weights_sha256)
oracle compare a.jsonl run/weights-*.safetensors --mixup 0.4 --batch 6 || fail "the steps are not those of the same arithmetic"
expect 0 "${run[@]}" --steps 4 --json "${tight[@]}"
same "$(field weights_sha256)" "$weights" "the weights within the least budget"
expect 0 "${run[@]}" --steps 3 --out part
expect 0 "$neap" train --resume part --steps 4 --json
same "$(field weights_sha256)" "$weights" "the weights of a run that went on"
expect 2 "$neap" train --resume part --steps 5 --mixup 0.5
says mixup
for classes in plain balanced; do
  more=(--metrics b.jsonl --force) weighted=()
  [ $classes = plain ] || more+=(--class-weights balanced) weighted=(--balanced)
  for micro in 6 2; do
    expect 0 "${run[@]}" --steps 4 --micro-batch $micro --out parts "${more[@]}"
    oracle compare b.jsonl parts/weights-*.safetensors --mixup 0.4 --batch 6 "${weighted[@]}" || fail "micro-batches of $micro, class weights $classes"
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
expect 0 "$neap" train --model lenet --data synthetic:images=32 --batch 16 --steps 1 --threads 1 --mixup 0.2
grep -qF 'weighted by Beta(0.2, 0.2)' out || fail "the settings do not tell mixup"
