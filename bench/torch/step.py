#!/usr/bin/env python3
"""Times one training step of a net, in eager PyTorch or by Neap, and prints one JSON line.

    step.py --nets FOLDER --net NAME --how eager|eager-nhwc|ckpt=K|step=BUDGET|fuse=BUDGET|backend=BUDGET|abudget=X [--steps N | --paced]

FOLDER has a nets.py with NETS: name -> (net, batch, data), where net().loss(x, y, segments) is the loss. BUDGET is Neap's
("300MiB", "min", "max"); X is PyTorch's activation_memory_budget. --paced: prints "ready", runs as many steps as each line of
standard input says and prints "done", so that programs can take turns.

Memory: heap bytes are those that PyTorch's CPU allocator gave (c10) and what bypasses it, at their peak in the second step,
above what is there between steps; `planned` is Neap's word, resident bytes included.
"""

import argparse
import json
import resource
import statistics
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", required=True)
    parser.add_argument("--net", required=True)
    parser.add_argument("--how", default="eager")
    parser.add_argument("--segments", type=int, default=1, help="chunks of time without recomputation (LSTM)")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--paced", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, args.nets)
    import nets
    import torch

    import neap.torch

    torch.set_num_threads(args.threads)
    kind, _, value = args.how.removesuffix("-nhwc").partition("=")
    if args.segments > 1 and kind != "ckpt":
        nets.checkpoint = lambda function, *inputs, **_: function(*inputs)
    build, batch, data = nets.NETS[args.net]
    torch.manual_seed(1)
    net = build()
    x, y = data(batch)
    if args.how.endswith("-nhwc"):
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    segments = int(value) if kind == "ckpt" else args.segments

    def loss_of(model, x, y):
        return model.loss(x, y, segments)

    began = time.perf_counter()
    compiled = None
    if kind in ("step", "fuse"):
        compiled = neap.torch.compile_step(net, loss_of, optimizer, budget=value, fuse=kind == "fuse")
        compiled.prepare(x, y)
    elif kind == "backend":
        loss_of = torch.compile(loss_of, backend="neap", options={"budget": value}, dynamic=False)
    elif kind == "abudget":
        import torch._functorch.config

        torch._functorch.config.activation_memory_budget = float(value)
        loss_of = torch.compile(loss_of, dynamic=False)
    elif kind not in ("eager", "ckpt"):
        parser.error(f"no such way: {args.how}")
    prepared = time.perf_counter() - began
    losses = []

    def step():
        if compiled is not None:
            losses.append(compiled(x, y).item())
            return
        loss = loss_of(net, x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())

    began = time.perf_counter()
    step()
    first = time.perf_counter() - began
    peak = counted_peak(step)
    seconds = []

    def timed(count):
        for _ in range(count):
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)

    if args.paced:
        print("ready", flush=True)
        for line in sys.stdin:
            timed(int(line))
            print("done", flush=True)
    else:
        timed(args.steps)
    result = {
        "net": args.net, "how": args.how, "batch": batch, "median_s": statistics.median(seconds) if seconds else None,
        "min_s": min(seconds, default=None), "steps_s": seconds, "prepare_s": prepared, "first_s": first, "losses": losses,
        "heap_peak": peak, "hwm_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "torch": torch.__version__,
    }  # fmt: skip
    if compiled is not None:
        memory = compiled.memory
        result |= {
            "planned": memory.planned_peak_bytes, "measured": memory.measured_peak_bytes, "resident": memory.resident_bytes,
            "enforced": memory.enforced, "overhead": memory.overhead, "plan_s": compiled.plan.seconds,
        }  # fmt: skip
    elif kind == "backend":
        result |= {"planned": sum(m.planned_peak_bytes for m in neap.torch.last_plans())}
    print(json.dumps(result), flush=True)


def counted_peak(step):
    """Bytes of the heap that a step takes at its peak above what there is before it: PyTorch's allocator and all else."""
    from neap.torch import allocator

    library = allocator.library()
    if library is None:
        step()
        return None
    library.neap_heap_on()
    library.neap_heap_count_all(1)
    step()
    peak = library.neap_heap_peak()
    library.neap_heap_count_all(0)
    library.neap_heap_off()
    return peak


if __name__ == "__main__":
    main()
