#!/usr/bin/env python3
"""Transfer learning with torchvision's resnet18 in one command, beside the same in PyTorch.

    transfer.py CIFAR10 FOLDER [--neap build/neap] [--seeds 3]      (CIFAR10: the binary version; needs torch, torchvision, safetensors, pillow)

FOLDER is made where it is missing: `resnet18.safetensors`, weights by torchvision's names that PyTorch trained for two epochs on 4,000
pictures of CIFAR-10's first seven classes; and `pictures`, PNG files of its other three: 300 of each to train with, and all 1,000 of
each to test. Then, seed by seed and in turns, only a new head is trained: AdamW, rate 0.001, weight decay 0.01, batch 30, five epochs,
pictures normalised by the training part. Both normalise by the frozen running statistics. Neap's rows are `max`, and `min` by the
planner `evict`. A process is its VmHWM, seconds are those of its training."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy

BASE, TRAIN, EPOCHS, BATCH, RATE = 7, 300, 5, 30, 0.001
INIT_MAPS = (
    "*bn?.*=*norm?.*", "*downsample.0.*=*conv3.*,*downsample.1.*=*norm3.*",
    "*norm?.weight=*norm?.gamma,*norm?.bias=*norm?.beta,*.running_var=*.running_variance",
    "layer?.0.*=stage?.block1.*,layer?.1.*=stage?.block2.*", "conv1.*=stem.conv1.*,norm1.*=stem.norm1.*,fc.*=head.linear1.*",
)  # fmt: skip


def records(cifar10: Path, part: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if part == "train" else ["test_batch.bin"]
    rows = numpy.concatenate([numpy.fromfile(cifar10 / name, numpy.uint8).reshape(-1, 3073) for name in names])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def train(net, parameters, x, y, epochs, batch, rate, decay, seed) -> None:
    import torch

    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(parameters, rate, weight_decay=decay)
    for _ in range(epochs):
        places = torch.randperm(len(x), generator=order)
        for i in range(0, len(x) - batch + 1, batch):
            optimizer.zero_grad()
            at = places[i : i + batch]
            torch.nn.functional.cross_entropy(net(x[at]), y[at]).backward()
            optimizer.step()


def make(cifar10: Path, folder: Path) -> None:
    import torch
    from PIL import Image
    from safetensors.torch import save_file
    from torchvision.models import resnet18

    for part, most in (("train", TRAIN), ("test", 1000)):
        x, y = records(cifar10, part)
        for label in range(BASE, 10):
            (folder / "pictures" / part / f"class{label}").mkdir(parents=True)
            for i in numpy.flatnonzero(y == label)[:most]:
                Image.fromarray(x[i].transpose(1, 2, 0)).save(folder / "pictures" / part / f"class{label}" / f"{i:05d}.png")
    torch.manual_seed(1)
    torch.set_num_threads(2)
    x, y = records(cifar10, "train")
    x, y = torch.tensor(x[y < BASE][:4000]).float(), torch.tensor(y[y < BASE][:4000]).long()
    x = (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)
    net = resnet18(num_classes=1000).to(memory_format=torch.channels_last)
    train(net, net.parameters(), x, y, 2, 64, RATE, 0.01, 1)
    save_file({k: v.contiguous() for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}, folder / "resnet18.safetensors")


def theirs(folder: Path, seed: int) -> dict:
    """In a process of its own."""
    import torch
    from PIL import Image
    from safetensors.torch import load_file
    from torchvision.models import resnet18

    def part(name: str):
        classes = sorted((folder / "pictures" / name).iterdir())
        pictures = [(numpy.asarray(Image.open(path)), k) for k, place in enumerate(classes) for path in sorted(place.iterdir())]
        return numpy.stack([p for p, _ in pictures]).transpose(0, 3, 1, 2), torch.tensor([k for _, k in pictures])

    torch.manual_seed(seed)
    torch.set_num_threads(2)
    (x, y), (x_test, y_test) = part("train"), part("test")
    mean, deviation = (torch.tensor(f(x, (0, 2, 3), keepdims=True)).float() for f in (numpy.mean, numpy.std))
    net = resnet18().eval().requires_grad_(False)
    net.load_state_dict(load_file(folder / "resnet18.safetensors"), strict=False)
    net.fc = torch.nn.Linear(512, 10 - BASE)
    net = net.to(memory_format=torch.channels_last)
    begin = time.monotonic()
    train(net, net.fc.parameters(), (torch.tensor(x).float() - mean) / deviation, y, EPOCHS, BATCH, RATE, 0.01, seed)
    seconds, right = time.monotonic() - begin, 0
    with torch.no_grad():
        for i in range(0, len(y_test), 100):
            out = net((torch.tensor(x_test[i : i + 100]).float() - mean) / deviation)
            right += int((out.argmax(1) == y_test[i : i + 100]).sum())
    peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"accuracy": right / len(y_test), "seconds": seconds, "process": peak * 1024}


def ours(neap: str, folder: Path, seed: int, budget: list[str]) -> dict:
    command = [neap, "train", "--model", "resnet18", "--data", f"images:{folder}/pictures", "--init", f"{folder}/resnet18.safetensors"]
    for words in INIT_MAPS:
        command += ["--init-map", words]
    command += ["--freeze", "*", "--freeze", "!head.*", "--optimizer", "adamw", "--lr", str(RATE), "--schedule", "constant"]
    command += ["--batch", str(BATCH), "--epochs", str(EPOCHS), "--threads", "2", "--seed", str(seed), "--json", "--evaluate", "off"]
    run = folder / "run"
    done = subprocess.run([*command, *budget, "--out", str(run), "--force"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    result = json.loads(done.stdout)
    tested = json.loads(subprocess.check_output([neap, "evaluate", str(run), "--json"], stderr=subprocess.DEVNULL))
    return {
        "accuracy": tested["test_accuracy"], "seconds": result["seconds"], "process": result["process_peak_bytes"],
        "planned": result["planned_peak_bytes"], "measured": result["measured_peak_bytes"], "sha256": result["weights_sha256"],
    }  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["--theirs"]:
        return print(json.dumps(theirs(Path(sys.argv[2]), int(sys.argv[3]))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cifar10", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--neap", default="build/neap")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if not args.folder.is_dir():
        make(args.cifar10, args.folder)
    print("| | seed | accuracy | process | planned, measured | seconds |\n|---|---|---|---|---|---|")
    rows = {"Neap, max": [], "Neap, min": [], "PyTorch": []}
    for seed in range(1, args.seeds + 1):
        rows["Neap, max"].append(ours(args.neap, args.folder, seed, ["--budget", "max"]))
        rows["Neap, min"].append(ours(args.neap, args.folder, seed, ["--budget", "min", "--planner", "evict"]))
        command = [sys.executable, __file__, "--theirs", str(args.folder), str(seed)]
        rows["PyTorch"].append(json.loads(subprocess.check_output(command)))
        for name, done in rows.items():
            row = done[-1]
            planned = f"{row['planned'] / 2**20:.1f}, {row['measured'] / 2**20:.1f} MiB" if "planned" in row else ""
            print(f"| {name} | {seed} | {100 * row['accuracy']:.2f} % | {row['process'] / 2**20:.1f} MiB | {planned} | {row['seconds']:.1f} |", flush=True)
    for name, done in rows.items():
        mean = statistics.mean(row["accuracy"] for row in done)
        ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(done, rows["PyTorch"], strict=True))
        print(f"{name}: {100 * mean:.2f} % in the mean; {ratio:.2f} of PyTorch's seconds")
    same = all(a["sha256"] == b["sha256"] for a, b in zip(rows["Neap, max"], rows["Neap, min"], strict=True))
    print(f"the weights of max and min are {'equal' if same else 'NOT equal'}, bit for bit")


if __name__ == "__main__":
    main()
