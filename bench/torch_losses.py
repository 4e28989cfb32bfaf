#!/usr/bin/env python3
"""bench/torch_losses.py BUILD CIFAR_DIR [--model wrn-28-2|resnet50] [--steps N] [--lr X] [--budget B]

The same network from the same weights on the same batches in Neap (bench/lockstep) and in PyTorch, step by step. CIFAR_DIR has the binary
version's files; ResNet-50 gets the images enlarged to 224x224. Needs PyTorch and numpy. A line a step, with relative differences:

  f32           PyTorch's loss, on its own from the same weights, beside Neap's
  f64, f32-f64  with --double: its loss in double beside Neap's and beside its own in f32: how much of the difference is rounding
  from ours     PyTorch's loss in f32 where the step before began with Neap's weights, momentum and statistics
  update        the two updates of the parameters in that step: the length of their difference by that of PyTorch's
  statistics    running means and variances beside PyTorch's f32 (and from ours): the largest difference, by the largest of the tensor

Rounding moves a few values across a ReLU's corner, where the gradient jumps; of that long steps make a difference of a percent in the loss
within a few steps, between any two programs (column f32-f64). So the columns f32 and statistics are for steps that are short for the
network (wrn-28-2 with --lr 1e-4, the default; resnet50 with --zero-residual --lr 0.01), the columns from ours for all.

Exit status 0: every loss in the column that is to hold agrees within --tolerance.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
from torch.nn import functional as F

# model: batch, image, classes, steps
MODELS = {"wrn-28-2": (100, (3, 32, 32), 10, 20), "resnet50": (8, (3, 224, 224), 1000, 3)}
# As Neap holds them: rounded to f32.
MOMENTUM, WEIGHT_DECAY, STATISTICS_MOMENTUM, EPSILON = (float(numpy.float32(v)) for v in (0.9, 5e-4, 0.1, 1e-5))


class Net:
    """Parameters, momentum and running statistics by Neap's names; made when first asked for, in the order of the network."""

    def __init__(self, forward, classes, dtype=torch.float32):
        self.forward, self.classes, self.dtype = forward, classes, dtype
        self.parameters, self.momentum, self.statistics = {}, {}, {}
        self.random = torch.Generator().manual_seed(1)

    def parameter(self, name, shape, kind):
        if name not in self.parameters:
            if kind == "weight":
                fan = shape[0] * shape[2] * shape[3] if len(shape) == 4 else shape[1]
                value = torch.randn(shape, generator=self.random) * (2 / fan) ** 0.5
            else:
                value = torch.ones(shape) if kind == "gamma" else torch.zeros(shape)
            self.parameters[name] = value.to(self.dtype).requires_grad_()
        return self.parameters[name]

    def conv(self, name, x, filters, size, stride=1):
        w = self.parameter(name + ".weight", (filters, x.shape[1], size, size), "weight")
        return F.conv2d(x, w, stride=stride, padding=size // 2)

    def norm(self, name, x):
        c = x.shape[1]
        mean = self.statistics.setdefault(name + ".running_mean", torch.zeros(c, dtype=self.dtype))
        variance = self.statistics.setdefault(name + ".running_variance", torch.ones(c, dtype=self.dtype))
        gamma, beta = self.parameter(name + ".gamma", (c,), "gamma"), self.parameter(name + ".beta", (c,), "beta")
        return F.batch_norm(x, mean, variance, gamma, beta, True, STATISTICS_MOMENTUM, EPSILON)

    def linear(self, name, x, outputs):
        w = self.parameter(name + ".weight", (outputs, x.shape[1]), "weight")
        return F.linear(x, w, self.parameter(name + ".bias", (outputs,), "bias"))

    def take(self, variables):
        """All that a step reads and changes, from Neap."""
        self.parameters = {n: variables[n].clone().requires_grad_() for n in self.parameters}
        self.momentum = {n: variables[n + ".momentum"].clone() for n in self.parameters}
        self.statistics = {n: variables[n].clone() for n in self.statistics}

    def step(self, rate, x, y):
        """The loss of a step of SGD."""
        optimizer = torch.optim.SGD(self.parameters.values(), lr=rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
        for name, value in self.momentum.items():
            optimizer.state[self.parameters[name]]["momentum_buffer"] = value
        loss = F.cross_entropy(self.forward(self, x.to(self.dtype)), y)
        loss.backward()
        optimizer.step()
        for name, value in self.parameters.items():
            value.grad = None
            self.momentum[name] = optimizer.state[value]["momentum_buffer"]
        return loss.item()


def wrn_28_2(w, x):
    x = w.conv("stem.conv1", x, 16, 3)
    for stage, width in enumerate((32, 64, 128), 1):
        for block in range(1, 5):
            s, stride = f"stage{stage}.block{block}.", 2 if stage > 1 and block == 1 else 1
            a = F.relu(w.norm(s + "norm1", x))
            first = x.shape[1] != width
            skip = w.conv(s + "conv1", a, width, 1, stride) if first else x
            y = w.conv(s + f"conv{1 + first}", a, width, 3, stride)
            x = w.conv(s + f"conv{2 + first}", F.relu(w.norm(s + "norm2", y)), width, 3) + skip
    x = F.relu(w.norm("head.norm1", x)).mean((2, 3))
    return w.linear("head.linear1", x, w.classes)


def resnet50(w, x):
    x = F.relu(w.norm("stem.norm1", w.conv("stem.conv1", x, 64, 7, 2)))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate((3, 4, 6, 3), 1):
        for block in range(1, count + 1):
            width, s, stride = 32 << stage, f"stage{stage}.block{block}.", 2 if stage > 1 and block == 1 else 1
            y = F.relu(w.norm(s + "norm1", w.conv(s + "conv1", x, width, 1)))
            y = F.relu(w.norm(s + "norm2", w.conv(s + "conv2", y, width, 3, stride)))
            y = w.norm(s + "norm3", w.conv(s + "conv3", y, 4 * width, 1))
            if block == 1:
                x = w.norm(s + "norm4", w.conv(s + "conv4", x, 4 * width, 1, stride))
            x = F.relu(y + x)
    return w.linear("head.linear1", x.mean((2, 3)), w.classes)


class Neap:
    """bench/lockstep: a step on each batch that it is given."""

    def __init__(self, a, image, classes, initial, state):
        self.state = state
        self.process = subprocess.Popen([a.build / "lockstep", a.model, str(a.batch), "x".join(map(str, image)), str(classes), a.budget,
                                         initial, state, str(a.threads), a.backend], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def step(self, rate, x, y):
        """The loss, and all variables after the step."""
        self.process.stdin.write(struct.pack("=f", rate) + x.numpy().tobytes() + y.numpy().astype("i4").tobytes())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return (float(line), read_safetensors(self.state)) if line else sys.exit("lockstep ended")


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + 4 * value.numel()]}
        at += 4 * value.numel()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(value.detach().contiguous().numpy().astype("<f4").tobytes())


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    return {n: torch.from_numpy(numpy.frombuffer(raw, "<f4", (t["data_offsets"][1] - t["data_offsets"][0]) // 4,
                                                 8 + size + t["data_offsets"][0]).reshape(t["shape"]).copy()) for n, t in header.items()}


def batches(folder, count, batch, image):
    """Records in file order, each channel with mean 0 and deviation 1."""
    raw = numpy.concatenate([numpy.fromfile(folder / f"data_batch_{i}.bin", numpy.uint8).reshape(-1, 3073) for i in range(1, 6)])
    pixels = raw[:, 1:].reshape(-1, 3, 32, 32)
    mean, deviation = pixels.mean((0, 2, 3), dtype="f8"), pixels.std((0, 2, 3), dtype="f8")
    for k in range(count):
        part = slice(k * batch, (k + 1) * batch)
        x = torch.from_numpy(((pixels[part] - mean[:, None, None]) / deviation[:, None, None]).astype("f4"))
        if image != (3, 32, 32):
            x = F.interpolate(x, image[1:], mode="bilinear")
        yield x, torch.from_numpy(raw[part, 0].astype("i8"))


def apart(a, b):
    return abs(a - b) / abs(b)


def statistics_apart(ours, net):
    return max(((ours[n] - value).abs().max() / value.abs().max()).item() for n, value in net.statistics.items())


def updates_apart(before, ours, net):
    gap = sum(((ours[n] - value.detach()).double() ** 2).sum() for n, value in net.parameters.items())
    length = sum(((value.detach() - before[n]).double() ** 2).sum() for n, value in net.parameters.items())
    return (gap / length).sqrt().item()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=pathlib.Path, help="the folder with bench/lockstep, built")
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--model", choices=MODELS, default="wrn-28-2")
    p.add_argument("--steps", type=int, help="20; 3 for resnet50")
    p.add_argument("--batch", type=int, help="100; 8 for resnet50")
    p.add_argument("--lr", type=float, default=1e-4, help="learning rate, the same in every step")
    p.add_argument("--zero-residual", action="store_true", help="resnet50: blocks begin as identities, as is usual (Goyal et al. 2017)")
    p.add_argument("--budget", default="max")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--backend", choices=["cpu", "reference"], default="cpu")
    p.add_argument("--double", action="store_true", help="PyTorch in double, too")
    p.add_argument("--tolerance", type=float, default=1e-4)
    p.add_argument("--hold", choices=["f32", "f64", "ours"], default="f32", help="the column that has to hold")
    a = p.parse_args()
    batch, image, classes, steps = MODELS[a.model]
    a.batch, a.steps = a.batch or batch, a.steps or steps
    torch.set_num_threads(a.threads)
    forward = {"wrn-28-2": wrn_28_2, "resnet50": resnet50}[a.model]
    single, follower, double = Net(forward, classes), Net(forward, classes), Net(forward, classes, torch.float64)
    data = list(batches(a.folder, a.steps, a.batch, image))
    for net in (single, follower, double):
        with torch.no_grad():
            forward(net, data[0][0][:1].expand(2, -1, -1, -1).to(net.dtype))  # makes the variables; the statistics below begin again
        net.statistics.clear()
        if a.zero_residual:
            for key, value in net.parameters.items():
                value.data *= not key.endswith("norm3.gamma")
    rate, before, worst = float(numpy.float32(a.lr)), {n: v.detach().clone() for n, v in single.parameters.items()}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_safetensors(folder / "initial.safetensors", before)
        neap = Neap(a, image, classes, folder / "initial.safetensors", folder / "state.safetensors")
        print("step       neap  torch f32 |     f32      f64  f32-f64  from ours   update | statistics  from ours")
        for step, (x, y) in enumerate(data, 1):
            loss, ours = neap.step(rate, x, y)
            f32, led = single.step(rate, x, y), follower.step(rate, x, y)
            f64 = double.step(rate, x, y) if a.double else float("nan")
            row = {"f32": apart(loss, f32), "f64": apart(loss, f64), "f32-f64": apart(f32, f64), "ours": apart(loss, led),
                   "update": updates_apart(before, ours, follower), "statistics": statistics_apart(ours, single),
                   "statistics from ours": statistics_apart(ours, follower)}
            worst = {k: max(v, worst.get(k, 0)) for k, v in row.items()}
            print(f"{step:4} {loss:10.7f} {f32:10.7f} | {row['f32']:.1e}  {row['f64']:.1e}  {row['f32-f64']:.1e}    {row['ours']:.1e}  "
                  f"{row['update']:.1e} |    {row['statistics']:.1e}    {row['statistics from ours']:.1e}", flush=True)
            follower.take(ours)
            before = ours
        neap.process.stdin.close()
        neap.process.wait()
    print("largest of each column:", ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
    sys.exit(0 if worst[a.hold] <= a.tolerance else 1)


main()
