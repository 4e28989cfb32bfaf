#!/usr/bin/env python3
"""Compares the weights that two builds of the command train, bit for bit, and resumes the older one's checkpoints in the newer one.

    digests.py OLDER NEWER --cifar10 DIR --mnist DIR --text FILE --pairs DIR:de-en      (OLDER and NEWER are neap commands)

Each row of RUNS trains three steps at the budget `max` and at 60 %, or at `min` where 60 % cannot be met: four times one
`weights_sha256`. Each row of RESUMED is stopped after two of four steps by OLDER; its end is that of OLDER's whole run. Prints
a table in Markdown; the exit status is 1 where a digest differs."""

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
from pathlib import Path

BUDGET_NOT_MET = 3
SMALL = "--data synthetic --image 3x64x64 --classes 10 --batch 4"
RUNS = {  # what it is -> options; {name}: data that the command line names
    "wrn-28-2": "--model wrn-28-2 --data cifar10:{cifar10} --batch 16",
    "resnet50": f"--model resnet50 {SMALL}",
    "densenet121": f"--model densenet121 {SMALL} --planner evict",
    "mobilenet-v2": f"--model mobilenet-v2 {SMALL} --planner evict",
    "unet": "--model unet-16 --data synthetic --image 1x188x188 --classes 2 --batch 1",
    "lenet": "--model lenet --data mnist:{mnist} --batch 32",
    "mlp": "--model mlp --data mnist:{mnist} --batch 32",
    "gpt-4x128x4, text": "--model gpt-4x128x4 --data text:{text},tokens=characters --length 64 --batch 8 --optimizer adamw",
    "dynamicconv-256, pairs": "--model dynamicconv-256 --data parallel:{pairs},tokens=4000 --batch 256 --optimizer adam",
    "wrn-10-1, sparse": "--model wrn-10-1 --data cifar10:{cifar10} --batch 16 --sparse 0.3 --rewire-every 1",
    "wrn-10-1, bf16": "--model wrn-10-1 --data cifar10:{cifar10} --batch 16 --precision bf16",
    "wrn-10-1, micro-batches": "--model wrn-10-1 --data cifar10:{cifar10} --batch 16 --micro-batch 4",
    "wrn-10-1, all three, f16": "--model wrn-10-1 --data cifar10:{cifar10} --batch 16 --micro-batch 4 --sparse 0.3 --precision f16",
    "resnet18, two threads": f"--model resnet18 {SMALL} --threads 2",
}
RESUMED = {
    "resumed: images": "--model wrn-10-1 --data cifar10:{cifar10} --batch 16",
    "resumed: text": "--model gpt-2x64x2 --data text:{text},tokens=characters --length 32 --batch 8 --optimizer adamw",
    "resumed: text, 1,000 codes, bf16": "--model gpt-2x64x2 --data text:{text},tokens=1000 --length 32 --batch 8 --optimizer adamw --precision bf16",
    "resumed: pairs": "--model dynamicconv-64 --data parallel:{pairs},tokens=1000 --batch 256 --optimizer adam",
    "resumed: digits, sparse": "--model lenet --data mnist:{mnist} --batch 32 --sparse 0.3 --save-sparse --rewire-every off",
}


def train(command: list[str]) -> tuple[str, float, str]:
    """The digest, planned peak in MiB and, where it failed, the message."""
    done = subprocess.run([*command, "--evaluate", "off", "--json"], capture_output=True, text=True)
    if done.returncode == BUDGET_NOT_MET:
        return "", 0, "not met"
    if done.returncode != 0:
        return "", 0, (done.stderr.strip().splitlines() or ["?"])[-1]
    result = json.loads(done.stdout)
    return result["weights_sha256"], result["planned_peak_bytes"] / 2**20, ""


def compare(older: str, newer: str, options: list[str]) -> tuple[bool, str]:
    digests, cells = set(), []
    options = [*options, "--steps", "3", *([] if "--threads" in options else ["--threads", "1"])]
    for budgets in (["max"], ["60%", "min"]):
        for neap in (older, newer):
            for budget in budgets:
                digest, peak, problem = train([neap, "train", *options, "--budget", budget])
                if problem != "not met":
                    break
            digests.add(digest)
            cells.append(problem or f"{budget}: {peak:.1f}")
    return len(digests) == 1 and "" not in digests, " | ".join([*cells, ", ".join(sorted(d[:12] for d in digests))])


def resume(older: str, newer: str, options: list[str]) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        options = [*options, "--threads", "1", "--schedule", "constant"]
        whole, _, problem = train([older, "train", *options, "--steps", "4", "--out", f"{folder}/whole"])
        _, _, stopped = train([older, "train", *options, "--steps", "2", "--out", str(run)])
        digest, _, failed = train([newer, "train", "--resume", str(run), "--steps", "4"])
        return digest == whole != "", problem or stopped or failed or digest[:12]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older")
    parser.add_argument("newer")
    for name in ("cifar10", "mnist", "text", "pairs"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows", default="*", help="a pattern of the rows that are run")
    args = parser.parse_args()
    equal = True
    print("| run | max, older (MiB) | newer | less, older (MiB) | newer | digest | equal |\n|---|---|---|---|---|---|---|")
    for name, options in ((n, o) for n, o in RUNS.items() if fnmatch.fnmatch(n, args.rows)):
        same, cells = compare(args.older, args.newer, options.format(**vars(args)).split())
        print(f"| {name} | {cells} | {'yes' if same else 'NO'} |", flush=True)
        equal &= same
    print("\n| resumed by the newer | digest | equal to the older's |\n|---|---|---|")
    for name, options in ((n, o) for n, o in RESUMED.items() if fnmatch.fnmatch(n, args.rows)):
        same, cell = resume(args.older, args.newer, options.format(**vars(args)).split())
        print(f"| {name} | {cell} | {'yes' if same else 'NO'} |", flush=True)
        equal &= same
    return not equal


if __name__ == "__main__":
    sys.exit(main())
