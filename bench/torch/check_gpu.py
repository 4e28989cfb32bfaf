#!/usr/bin/env python3
"""Checks neap.torch on a machine with a CUDA GPU, beside eager PyTorch: bits, memory, step time, lengths that vary.

    check_gpu.py --out FILE.json [--limit SECONDS] [--nets 'NAME;...'] [--device cuda|cpu] [--plain] [--no-compile]
    check_gpu.py --table FILE.json

It needs PyTorch and NumPy. It runs from a checkout: libneap_plan.so is named by NEAP_PLAN_LIBRARY, or lies in build/, or is built by
cmake in a folder that is removed afterwards. The Llama is that of transformers, its LoRA that of peft, where they are installed
(not with --plain); else both are made of PyTorch's modules, as all other nets are (gpu_nets.py).

For each net, in the order of the rows: three steps at max, at 60 % and at the least budget give losses, weights and buffers that
are compared with eager's, bit by bit (algorithms that are deterministic, no TF32; eager runs twice, which tells what PyTorch itself
does not repeat); the third step's peak is compared with the planned one; one step object runs three lengths; step times are taken
in turns beside eager and torch.utils.checkpoint, and at the end for all nets beside activation_memory_budget, at equal memory.

Each row is written to FILE.json as soon as it is known, so that a run that is cut keeps what it has; --limit is in seconds
from the start; no row begins after it. A table in Markdown is printed. Exit status 1: bits differ where eager repeats itself, a peak is more than 5 % above the
planned one, or a row of Neap failed. --device cpu runs the same logic at tiny sizes."""

import argparse
import contextlib
import gc
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))  # which Python leaves out where it is told to be safe
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA begins: cuBLAS repeats its bits

try:
    import torch
    from gpu_nets import NETS, Blocks
except ImportError as error:
    sys.exit(f"check_gpu: PyTorch is missing ({error}): pip install torch numpy")

BEGAN = time.perf_counter()
STEPS = 3
MOST_OVER = 1.05  # of the measured peak over the planned one
KNOB = 0.5  # activation_memory_budget


# ---- The library ----


def find_library():
    """Makes neap importable: names libneap_plan.so, or builds it."""
    sys.path.insert(0, str(ROOT / "python"))
    if os.environ.get("NEAP_PLAN_LIBRARY") or any(
        (ROOT / folder / "libneap_plan.so").is_file() for folder in ("build", "python/neap")
    ):
        return
    if not shutil.which("cmake"):
        sys.exit("check_gpu: libneap_plan.so is missing and so is cmake: name the library by NEAP_PLAN_LIBRARY")
    with tempfile.TemporaryDirectory(prefix="neap-build-") as folder:
        for command in (
            ["cmake", "-S", str(ROOT), "-B", folder, "-DNEAP_PLAN_ONLY=ON", "-DNEAP_TESTS=OFF"],
            ["cmake", "--build", folder, "-j", "8", "--target", "neap_plan_shared"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"check_gpu: {' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
        os.environ["NEAP_PLAN_LIBRARY"] = f"{folder}/libneap_plan.so"
        import neap  # noqa: F401  (it is loaded before the folder goes)


# ---- What is run ----


def recompute(model, on):
    """Switches torch.utils.checkpoint on or off, block by block."""
    if isinstance(model, Blocks):
        model.recompute = on
    elif on:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


class Eager:
    """A step as everybody writes it. knob: of activation_memory_budget, by torch.compile; checkpointed: block by block."""

    def __init__(self, net, options, checkpointed=False, knob=None):
        self.model, self.optimizer = net.model(options)
        recompute(self.model, checkpointed)
        self.loss, self.knob = net.loss, knob
        if knob is not None:
            torch._dynamo.reset()
            backend = "inductor" if options.device == "cuda" else "aot_eager_decomp_partition"
            self.loss = torch.compile(net.loss, backend=backend, dynamic=False)

    def __call__(self, *batch):
        with knob_at(self.knob):
            loss = self.loss(self.model, *batch)
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


@contextlib.contextmanager
def knob_at(value):
    import torch._functorch.config as config

    if value is None:
        yield
        return
    before, config.activation_memory_budget = config.activation_memory_budget, value
    try:
        yield
    finally:
        config.activation_memory_budget = before


class Planned:
    """A compiled step."""

    def __init__(self, net, options, budget, batch):
        import neap.torch

        self.model, self.optimizer = net.model(options)
        began = time.perf_counter()
        self.step = neap.torch.compile_step(
            self.model, net.loss, self.optimizer, budget=budget, seconds=options.plan_seconds
        )
        self.step.prepare(*batch)
        self.seconds = time.perf_counter() - began

    def __call__(self, *batch):
        return self.step(*batch)


# ---- What is measured ----


class Meter:
    """Bytes that a step takes at its peak: its batch, and all that was not there when the meter was made, which parameters and states
    of its model come after."""

    def __init__(self, options):
        self.cuda = options.device == "cuda"
        self.base = 0
        gc.collect()
        if self.cuda:
            torch._C._cuda_clearCublasWorkspaces()  # each way makes its own
            torch.cuda.empty_cache()
            self.base = torch.cuda.memory_allocated()
            self.requested = torch.cuda.memory_stats().get("requested_bytes.all.current", 0)

    def peak(self, step, batch):
        """Runs one step: {"measured": bytes, ...}."""
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        loss = step(*batch)
        if self.cuda:
            torch.cuda.synchronize()
            told, given = torch.cuda.memory_stats(), sum(t.untyped_storage().nbytes() for t in batch)
            requested = told.get("requested_bytes.all.peak", 0)  # without the caching allocator's rounding
            return loss, {
                "measured": torch.cuda.max_memory_allocated() - self.base + given,
                "requested": requested - self.requested + given,
            }
        return loss, {"measured": step.step.memory.measured_peak_bytes if isinstance(step, Planned) else None}


def synchronized(options):
    if options.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def tensors_of(model):
    return {n: t.detach().cpu().clone() for n, t in (*model.named_parameters(), *model.named_buffers())}


def bits_of(t):
    return t.contiguous().reshape(-1).view(torch.uint8)


def compared(a, b):
    """(names that differ in a bit, the largest difference) of two dicts of tensors."""
    names = [n for n in a if n not in b or a[n].shape != b[n].shape or not torch.equal(bits_of(a[n]), bits_of(b[n]))]
    names += [n for n in b if n not in a]
    gaps = [(a[n].double() - b[n].double()).abs().max().item() for n in names if n in a and n in b and a[n].numel()]
    return names, max(gaps, default=0.0)


def trained(step, batches):
    """Losses, parameters and buffers after a step for each batch. Draws begin anew."""
    torch.manual_seed(2)
    losses = [step(*b) for b in batches]
    return {f"loss {i}": loss.cpu() for i, loss in enumerate(losses)} | tensors_of(step.model)


@contextlib.contextmanager
def repeatable(warn_only, cudnn=True):
    """Deterministic algorithms and no TF32; cudnn: cuDNN may be used. Memory that is not written yet is left as it is, which is
    quicker."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled = False, cudnn
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.enabled = True


class Check:
    """The rows so far, and the file that has them."""

    def __init__(self, options):
        self.options, self.began = options, BEGAN
        self.rows, self.left_out = [], []
        self.memory_of_checkpoint = {}
        self.warn_only = {}  # net -> whether it has operators without a deterministic form

    def add(self, **row):
        self.rows.append(row)
        self.write()

    def write(self):
        report = {"machine": machine(self.options), "seconds": round(time.perf_counter() - self.began, 1),
                  "left_out": self.left_out, "rows": self.rows}  # fmt: skip
        path = Path(self.options.out)
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(report, indent=1))
        os.replace(new, path)

    def row(self, name, kind, run, **about):
        """Adds what run() gives, or what went wrong; nothing where time is over. The row, or None."""
        if time.perf_counter() - self.began > self.options.limit:
            self.left_out.append([name, kind, *about.values()])
            return None
        began = time.perf_counter()
        told = {}
        try:
            with warnings.catch_warnings(), repeatable(self.warn_only.get(name, False), NETS[name].cudnn):
                warnings.simplefilter("ignore")
                told = run()
        except Exception as error:  # a row that fails is a result, and others follow
            told = {"error": f"{type(error).__name__}: {str(error)[:500]}", "where": traceback.format_exc()[-1500:]}
        self.add(net=name, kind=kind, **about, **told, row_seconds=round(time.perf_counter() - began, 1))
        print(f"{self.rows[-1]['row_seconds']:6.1f} s  {name}, {kind} {' '.join(map(str, about.values()))}"
              f"{': ' + told['error'].splitlines()[0] if 'error' in told else ''}", file=sys.stderr, flush=True)  # fmt: skip
        gc.collect()
        return self.rows[-1]

    # ---- Bits and memory ----

    def bits(self, name):
        net, options = NETS[name], self.options
        batches = [net.batch(options, 10 + i) for i in range(STEPS)]
        wanted = {}

        def eager():
            meter = Meter(options)
            step = Eager(net, options)
            wanted.update(trained(step, batches))
            _, memory = meter.peak(step, batches[0])
            del step
            names, gap = compared(wanted, trained(Eager(net, options), batches))
            return {
                "repeats": not names,
                "differing": names[:5],
                "gap": gap,
                "strict": not self.warn_only.get(name),
            } | memory

        row = self.row(name, "eager", eager)
        if row and "deterministic" in row.get("error", ""):  # an operator has no such form: as well as it can be had
            self.rows.remove(row)
            self.warn_only[name] = True
            row = self.row(name, "eager", eager)
        if row and "error" in row:
            return
        for budget in options.budgets.split(";"):
            self.row(name, "bits", lambda budget=budget: self.one_budget(net, budget, batches, wanted), budget=budget)

    def one_budget(self, net, budget, batches, wanted):
        meter = Meter(self.options)
        try:
            step = Planned(net, self.options, budget, batches[0])
        except neap_over_budget() as error:  # an answer too: parameters and states may be more than a share of all
            return {"least": error.smallest}
        names, gap = compared(wanted, trained(step, batches))
        _, memory = meter.peak(step, batches[0])
        return (
            {"bits": not names, "differing": names[:5], "gap": gap, "prepare_s": step.seconds} | told_of(step) | memory
        )

    # ---- Lengths ----

    def lengths(self, name):
        net, options = NETS[name], self.options
        full = net.sizes[options.small][1]
        self.row(name, "lengths", lambda: self.three_lengths(net, (full, full // 2, full * 5 // 8)))

    def three_lengths(self, net, lengths):
        """One step object; eager's weights at each length are compared after each step."""
        options = self.options
        batches = [net.batch(options, 20 + i, n) for i, n in enumerate(lengths)]
        meter = Meter(options)
        try:
            step = Planned(net, options, "60%", batches[0])
        except neap_over_budget():
            step = Planned(net, options, "min", batches[0])
        began = time.perf_counter()
        step.step.prepare(*batches[0], lengths=lengths)
        prepared = time.perf_counter() - began + step.seconds
        captures = sum(len(k.captured) for k in step.step.kinds.values())
        torch.manual_seed(2)
        for b in batches:  # makes the optimizer's states
            step(*b)
        each = []
        for n, b in zip(lengths, batches, strict=True):
            _, memory = meter.peak(step, b)
            each.append({"length": n} | told_of(step) | memory)
        after = sum(len(k.captured) for k in step.step.kinds.values())
        got = tensors_of(step.model)
        del step
        other = Eager(net, options)
        torch.manual_seed(2)
        for b in (*batches, *batches):
            other(*b)
        names, gap = compared(tensors_of(other.model), got)
        return {"bits": not names, "differing": names[:5], "gap": gap, "captures": captures, "unforeseen": after - captures,
                "prepare_s": prepared, "lengths": each}  # fmt: skip

    # ---- Step times ----

    def times(self, name):
        """Eager, checkpoint, and Neap at max and in the checkpoint's memory."""
        net, options = NETS[name], self.options
        batch = net.batch(options, 10)

        def run():
            ways = [self.way("eager", lambda: Eager(net, options), batch)]
            ways.append(self.way("checkpoint", lambda: Eager(net, options, checkpointed=True), batch))
            ways.append(self.way("Neap, max", lambda: Planned(net, options, "max", batch), batch))
            self.at_equal_memory(ways, ways[1], net, batch)
            return {"ways": self.in_turns(ways, batch)}

        self.row(name, "times", run)

    def knobs(self, name):
        """Eager, activation_memory_budget, and Neap in its memory."""
        net, options = NETS[name], self.options
        batch = net.batch(options, 10)

        def run():
            ways = [self.way("eager", lambda: Eager(net, options), batch)]
            knob = f"activation_memory_budget={KNOB}"
            ways.append(self.way(knob, lambda: Eager(net, options, knob=KNOB), batch))
            self.at_equal_memory(ways, ways[1], net, batch)
            return {"ways": self.in_turns(ways, batch)}

        self.row(name, "knob", run)

    def at_equal_memory(self, ways, other, net, batch):
        """Adds Neap in the memory of another way, or what the least is."""
        budget = other["measured"] or "60%"
        try:
            ways.append(self.way(f"Neap, as {other['way']}", lambda: Planned(net, self.options, budget, batch), batch))
        except neap_over_budget() as error:
            ways.append({"way": f"Neap, as {other['way']}", "least": error.smallest})

    def way(self, name, make, batch):
        meter = Meter(self.options)
        step = make()
        for _ in range(2):  # what is made once: states, kernels
            step(*batch)
        _, memory = meter.peak(step, batch)
        planned = told_of(step) if isinstance(step, Planned) else {}
        return {"way": name, "step": step, "seconds": []} | planned | memory

    def in_turns(self, ways, batch):
        """Adds to each way its seconds and its ratio to the first in the same round (medians), and drops the steps."""
        running = [w for w in ways if "step" in w]
        began = synchronized(self.options)
        running[0]["step"](*batch)
        once = max(synchronized(self.options) - began, 1e-4)
        steps = 1 if self.options.small else max(1, min(20, int(0.25 / once)))
        for _ in range(2 if self.options.small else 5):
            for w in running:
                began = synchronized(self.options)
                for _ in range(steps):
                    w["step"](*batch)
                w["seconds"].append((synchronized(self.options) - began) / steps)
        first = running[0]["seconds"]
        for w in running:
            w["ratio"] = statistics.median(a / b for a, b in zip(w["seconds"], first, strict=True))
            w["median_s"] = statistics.median(w["seconds"])
            del w["step"]
        return ways


def neap_over_budget():
    import neap

    return neap.OverBudget


def told_of(step):
    memory = step.step.memory
    return {"planned": memory.planned_peak_bytes, "keep_all": memory.keep_all_bytes, "resident": memory.resident_bytes,
            "overhead": memory.overhead, "enforced": memory.enforced, "plan_s": step.step.plan.seconds}  # fmt: skip


def machine(options):
    import neap

    about = {"torch": torch.__version__, "neap": getattr(neap, "__version__", ""), "device": options.device,
             "threads": torch.get_num_threads(), "small": options.small}  # fmt: skip
    if options.device == "cuda":
        about |= {"name": torch.cuda.get_device_name(), "cuda": torch.version.cuda,
                  "cudnn": torch.backends.cudnn.version()}  # fmt: skip
    for package in ("transformers", "peft"):
        found = not options.plain and importlib.util.find_spec(package)
        about[package] = __import__(package).__version__ if found else None
    return about


# ---- What it says ----


def faults(rows):
    """What makes the check fail, one line each."""
    found = []
    repeats = {r["net"]: r.get("repeats", False) for r in rows if r["kind"] == "eager"}
    for r in rows:
        where = ", ".join(str(r[k]) for k in ("net", "kind", "budget") if k in r)
        if "error" in r and r["kind"] in ("bits", "lengths"):
            found.append(f"{where}: {r['error']}")
        if r.get("bits") is False and repeats.get(r["net"]):
            found.append(f"{where}: bits differ from eager's by {r['gap']:.2g} in {', '.join(r['differing'])}")
        for one in (r, *r.get("lengths", []), *r.get("ways", [])):
            planned, measured = one.get("planned"), one.get("measured")
            if planned and measured and measured > MOST_OVER * planned:
                about = one.get("length", one.get("way", ""))
                found.append(
                    f"{where} {about}: peak {measured} is {measured / planned - 1:.1%} above the planned {planned}"
                )
    return found


def mib(value):
    return f"{value / 2**20:.0f}" if value else ""


def verdict(r, repeats):
    if "error" in r:
        return f"failed: {r['error'].splitlines()[0][:80]}"
    if "least" in r:
        return f"cannot be met; the least is {mib(r['least'])} MiB"
    if r.get("bits"):
        return "equal"
    return "differ" if repeats else "eager does not repeat its own"


def markdown(header, rows):
    lines = [header, *rows]
    lines.insert(1, ["---"] * len(header))
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def budget_row(r, repeats):
    state = "repeats" if r.get("repeats") else verdict(r, repeats)
    planned = [f"{r['overhead']:.2f}", f"{r['prepare_s']:.1f}"] if "overhead" in r else ["", ""]
    return [r["net"], r.get("budget", "eager"), state, mib(r.get("planned")), mib(r.get("measured")), *planned]


def way_row(r, w):
    memory = f"least {mib(w['least'])}" if "least" in w else mib(w.get("measured") or w.get("planned"))
    seconds = [f"{1e3 * w['median_s']:.1f}", f"{w['ratio']:.2f}"] if "median_s" in w else ["", ""]
    return [r["net"], w["way"], memory, *seconds]


def table(report):
    """Markdown: bits and memory; lengths; step times; where."""
    rows = report["rows"]
    repeats = {r["net"]: r.get("repeats", False) for r in rows if r["kind"] == "eager"}
    bits = [budget_row(r, repeats.get(r["net"])) for r in rows if r["kind"] in ("eager", "bits")]
    lengths = [
        [r["net"], one["length"], verdict(r, repeats.get(r["net"])), mib(one.get("planned")), mib(one.get("measured")),
         f"{r.get('captures', '')} ({r.get('unforeseen', '')})"]
        for r in rows if r["kind"] == "lengths" for one in r.get("lengths", [{"length": ""}])
    ]  # fmt: skip
    ways = [
        way_row(r, w)
        for r in rows
        if r["kind"] in ("times", "knob")
        for w in r.get("ways", [{"way": verdict(r, False)}])
    ]
    memory = ["planned, MiB", "measured, MiB"]
    told = ", ".join(f"{k} {v}" for k, v in report["machine"].items() if v)
    parts = [
        markdown(["net", "budget", "bits", *memory, "planned overhead", "prepared, s"], bits),
        markdown(["net", "length", "bits", *memory, "captures (unforeseen)"], lengths),
        markdown(["net", "how", "memory, MiB", "step, ms", "step / eager's"], ways),
        f"{told}; deterministic algorithms, f32 without TF32; {report['seconds']} s.",
    ]
    if report["left_out"]:
        left_out = "; ".join(" ".join(map(str, x)) for x in report["left_out"])
        parts.append(f"Left out, since time was over: {left_out}.")
    return "\n\n".join(parts)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="check_gpu.json")
    parser.add_argument("--limit", type=float, default=600, help="seconds from the start, after which no row begins")
    parser.add_argument("--nets", help=f"names, separated by ';': {'; '.join(NETS)}")
    parser.add_argument("--budgets", default="max;60%;min")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--plain", action="store_true", help="leave transformers and peft aside")
    parser.add_argument("--plan-seconds", type=float, default=5, help="what a plan's search takes at most")
    parser.add_argument("--no-compile", action="store_true", help="leave activation_memory_budget out")
    parser.add_argument("--table", metavar="FILE", help="print the table of a file that is there, and run nothing")
    options = parser.parse_args()
    options.small = options.device == "cpu"
    options.names = [n.strip() for n in options.nets.split(";")] if options.nets else list(NETS)
    unknown = [n for n in options.names if n not in NETS]
    if unknown:
        parser.error(f"--nets: no net is called {', '.join(unknown)}; there are {'; '.join(NETS)}")
    return options


def main():
    options = arguments()
    if options.table:
        report = json.loads(Path(options.table).read_text())
    else:
        if options.device == "cuda" and not torch.cuda.is_available():
            sys.exit("check_gpu: PyTorch sees no CUDA device: run it on a machine with one, or --device cpu")
        find_library()
        check = Check(options)
        for name in options.names:
            check.bits(name)
            if NETS[name].kind == "tokens":
                check.lengths(name)
            check.times(name)
        for name in () if options.no_compile else options.names:
            check.knobs(name)
        check.write()
        report = json.loads(Path(options.out).read_text())
    print(table(report))
    found = faults(report["rows"])
    for line in found:
        print(f"check_gpu: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
