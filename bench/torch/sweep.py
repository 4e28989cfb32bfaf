#!/usr/bin/env python3
"""Draws memory against step time from lines of step.py, one file a group of programs that took turns (rounds.py).

    sweep.py --svg OUT.svg FILE.jsonl...      (needs matplotlib)

Times are medians of ratios to eager in the same round. Memory is what is there between steps (parameters, optimizer states, the
batch: as a compiled step of the same net counts them) plus the heap's peak in a step; of a compiled step what was planned."""

import argparse
import json
import statistics


def ratios(row, eager):
    count = min(len(row["steps_s"]), len(eager["steps_s"]))
    return statistics.median(a / b for a, b in zip(row["steps_s"][-count:], eager["steps_s"][-count:], strict=True))


def read(paths):
    """net -> kind -> [(MiB, ratio, how)]"""
    nets = {}
    for path in paths:
        rows = [r for r in map(json.loads, open(path)) if "how" in r]
        eager = next(r for r in rows if r["how"] == "eager")
        rest = next(r["resident"] for r in rows if "resident" in r)
        for row in rows:
            kind = row["how"].partition("=")[0]
            bytes_ = row["planned"] if "planned" in row else row["heap_peak"] + rest
            points = nets.setdefault(row["net"], {}).setdefault(kind, [])
            points.append((bytes_ / 2**20, ratios(row, eager), row["how"]))
    return nets


def draw(nets, path):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    names = {"eager": "eager", "abudget": "torch.compile, activation_memory_budget", "step": "neap.torch.compile_step"}
    figure, axes = plt.subplots(1, len(nets), figsize=(4.2 * len(nets), 3.6), squeeze=False)
    for axis, (net, kinds) in zip(axes[0], nets.items(), strict=True):
        for kind, marker in (("eager", "s"), ("abudget", "x"), ("step", "o")):
            points = sorted(kinds[kind])
            line = "-" if kind == "step" else "none"
            axis.plot([p[0] for p in points], [p[1] for p in points], marker, linestyle=line, label=names[kind])
        axis.set_title(net)
        axis.set_xlabel("memory of a step, MiB")
        axis.set_xlim(left=0)
        axis.set_ylim(0.5, 1.6)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("step time, eager = 1")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    nets = read(args.files)
    for net, kinds in nets.items():
        for kind in kinds:
            for memory, ratio, how in sorted(kinds[kind]):
                print(f"{net:10} {how:14} {memory:6.0f} MiB {ratio:6.2f}")
    if args.svg:
        draw(nets, args.svg)


main()
