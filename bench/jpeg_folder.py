#!/usr/bin/env python3
"""Trains on a folder of many JPEG files: what indexing and the process take, and images a second beside torchvision.

    jpeg_folder.py FOLDER [--neap build/neap] [--files 100000] [--steps 200] [--rounds 3]      (needs pillow, torch and torchvision)

FOLDER is made where it is missing: `all` has FILES pictures of 500x375 (smooth noise, quality 85) in 10 classes, hard links of
200; `some` has 4,000. First a mobilenet-v2 trains ten steps on `all` within `--process-budget 200MB`. Then a perceptron of 16 units
trains on `some`, crops of 224x224 (`--augment on`; RandomResizedCrop and RandomHorizontalFlip), batch 64: Neap with two threads, and
PyTorch with ImageFolder and a DataLoader of two workers, in turns. Seconds are those from the tenth step's end to the last one's. The
processor's seconds a picture do not depend on what else the machine does: of PyTorch those of all its processes in that time, of Neap those
of the whole run less those of a run of ten steps."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH, CLASSES, DISTINCT, FIRST = 64, 10, 200, 10


def make(folder: Path, files: int) -> None:
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(1)
    originals = folder / "originals"
    originals.mkdir(parents=True)
    for i in range(DISTINCT):
        smooth = Image.fromarray(random.integers(0, 256, (7, 9, 3), dtype=numpy.uint8)).resize((500, 375), Image.BICUBIC)
        grain = numpy.asarray(smooth) + random.normal(0, 6, (375, 500, 1))
        Image.fromarray(grain.clip(0, 255).astype("u1")).save(originals / f"{i}.jpg", quality=85)
    for name, count in (("all", files), ("some", 4000)):
        for k in range(CLASSES):
            (folder / name / f"class{k}").mkdir(parents=True)
        for i in range(count):
            os.link(originals / f"{i % DISTINCT}.jpg", folder / name / f"class{i // DISTINCT % CLASSES}" / f"{i:06d}.jpg")


def processor_seconds(pids: list[str]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def neap(command: list[object]) -> tuple[dict, list[dict]]:
    """What the command prints, with its processor's seconds, and its steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*command, "--evaluate", "off", "--json", "--metrics", f"{folder}/metrics"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.loads(done.stdout) | {"processor": used}, [json.loads(line) for line in Path(folder, "metrics").read_text().splitlines()]


def theirs(folder: str, steps: int) -> None:
    """In a process of its own: prints seconds of the steps, and VmHWM of it and its workers."""
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(2)
    recipe = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)]
    data = datasets.ImageFolder(folder, transforms.Compose(recipe))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 224 * 224, 16), torch.nn.ReLU(), torch.nn.Linear(16, CLASSES))
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    for step, (x, y) in enumerate(torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=2), 1):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        if step == FIRST:
            pids = ["self", *Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
            begin, used = time.monotonic(), processor_seconds(pids)
        if step == steps:
            seconds, used = time.monotonic() - begin, processor_seconds(pids) - used
            peak = sum(int(line.split()[1]) for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
            break
    print(json.dumps({"seconds": seconds, "processor": used, "peak": peak * 1024}), flush=True)
    os._exit(0)  # without waiting for the workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--neap", default="build/neap")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="0: only the first part")
    parser.add_argument("--speed", action="store_true", help="only the second part")
    args = parser.parse_args()
    if not args.folder.is_dir():
        make(args.folder, args.files)
    common = [args.neap, "train", "--threads", 2, "--data"]
    if not args.speed:
        begin = time.monotonic()
        done, _ = neap([*common, f"images:{args.folder}/all,size=224", "--model", "mobilenet-v2", "--batch", 8, "--process-budget", "200MB", "--steps", FIRST])
        print(
            f"mobilenet-v2 within 200 MB: {time.monotonic() - begin:.1f} s from start to end, of which {done['seconds']:.1f} trains; "
            f"process {done['process_peak_bytes'] / 1e6:.1f} MB, planned peak {done['planned_peak_bytes'] / 1e6:.1f} MB",
            flush=True,
        )
    images, rows = (args.steps - FIRST) * BATCH, []
    for _ in range(args.rounds):
        command = [*common, f"images:{args.folder}/some,size=224", "--model", "mlp-16", "--batch", BATCH, "--lr", 0.01, "--augment", "on"]
        start, _ = neap([*command, "--steps", FIRST])
        done, steps = neap([*command, "--steps", args.steps])
        other = json.loads(subprocess.check_output([sys.executable, __file__, "--theirs", str(args.folder / "some"), str(args.steps)]))
        used = [1000 * x / images for x in (done["processor"] - start["processor"], other["processor"])]
        rows.append((images / sum(step["seconds"] for step in steps[FIRST:]), images / other["seconds"], *used))
        print(
            f"Neap {rows[-1][0]:.0f} images/s, {used[0]:.2f} ms of a processor each, process {done['process_peak_bytes'] / 1e6:.1f} MB; "
            f"PyTorch {rows[-1][1]:.0f} images/s, {used[1]:.2f} ms, processes {other['peak'] / 1e6:.0f} MB; "
            f"ratios {rows[-1][0] / rows[-1][1]:.2f}, {used[1] / used[0]:.2f}",
            flush=True,
        )
    if rows:
        print(f"median ratios {statistics.median(r[0] / r[1] for r in rows):.2f}, {statistics.median(r[3] / r[2] for r in rows):.2f}")


if __name__ == "__main__":
    theirs(sys.argv[2], int(sys.argv[3])) if sys.argv[1:2] == ["--theirs"] else main()
