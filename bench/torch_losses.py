#!/usr/bin/env python3
"""bench/torch_losses.py NEAP CIFAR_DIR [--model wrn-28-2|resnet50] [--steps N] [--budget B]

The same network from the same weights on the same batches in Neap and in PyTorch: prints the loss of each step side by side and the
largest relative differences of losses and running statistics. Needs PyTorch and numpy. CIFAR_DIR has the binary version's files.
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


class Weights:
    """Variables by Neap's names; made when first asked for, in the order of the network."""

    def __init__(self, seed):
        self.parameters, self.running = {}, {}
        self.random = torch.Generator().manual_seed(seed)

    def get(self, name, shape, kind):
        if name not in self.parameters:
            if kind == "weight":
                fan = shape[0] * shape[2] * shape[3] if len(shape) == 4 else shape[1]
                value = torch.randn(shape, generator=self.random) * (2 / fan) ** 0.5
            else:
                value = torch.ones(shape) if kind == "gamma" else torch.zeros(shape)
            self.parameters[name] = value.requires_grad_()
        return self.parameters[name]

    def conv(self, name, x, filters, size, stride=1):
        w = self.get(name + ".weight", (filters, x.shape[1], size, size), "weight")
        return F.conv2d(x, w, stride=stride, padding=size // 2)

    def norm(self, name, x):
        c = x.shape[1]
        mean, variance = self.running.setdefault(name, (torch.zeros(c), torch.ones(c)))
        gamma, beta = self.get(name + ".gamma", (c,), "gamma"), self.get(name + ".beta", (c,), "beta")
        return F.batch_norm(x, mean, variance, gamma, beta, True, 0.1, 1e-5)

    def linear(self, name, x, outputs):
        w = self.get(name + ".weight", (outputs, x.shape[1]), "weight")
        return F.linear(x, w, self.get(name + ".bias", (outputs,), "bias"))


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
    return w.linear("head.linear1", x, 10)


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
    return w.linear("head.linear1", x.mean((2, 3)), 10)


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
    return {n: torch.from_numpy(numpy.frombuffer(raw[8 + size :], "<f4", (t["data_offsets"][1] - t["data_offsets"][0]) // 4,
                                                 t["data_offsets"][0]).reshape(t["shape"]).copy()) for n, t in header.items()}


def batches(folder, count, batch):
    raw = numpy.concatenate([numpy.fromfile(folder / f"data_batch_{i}.bin", numpy.uint8).reshape(-1, 3073) for i in range(1, 6)])
    pixels = raw[:, 1:].reshape(-1, 3, 32, 32)
    mean = pixels.mean((0, 2, 3), dtype=numpy.float64)
    deviation = numpy.sqrt(((pixels.transpose(1, 0, 2, 3).reshape(3, -1) - mean[:, None]) ** 2).sum(1) / (pixels.size / 3 - 1))
    for k in range(count):
        part = slice(k * batch, (k + 1) * batch)
        x = (pixels[part] - mean[:, None, None]) / deviation[:, None, None]
        yield torch.from_numpy(x.astype("f4")), torch.from_numpy(raw[part, 0].astype("i8"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("neap")
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--model", choices=["wrn-28-2", "resnet50"], default="wrn-28-2")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--batch", type=int, default=100)
    p.add_argument("--budget", default="max")
    p.add_argument("--lr", type=float, default=0.1)
    a = p.parse_args()
    net = {"wrn-28-2": wrn_28_2, "resnet50": resnet50}[a.model]
    weights, data = Weights(1), list(batches(a.folder, a.steps, a.batch))
    with torch.no_grad():
        net(weights, data[0][0][:2])
    weights.running.clear()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_safetensors(folder / "init.safetensors", weights.parameters)
        subprocess.run([a.neap, "train", "--model", a.model, "--data", f"cifar10:{a.folder}", "--batch", str(a.batch), "--steps", str(a.steps),
                        "--budget", a.budget, "--lr", str(a.lr), "--schedule", "constant", "--shuffle", "off", "--augment", "off",
                        "--evaluate", "off", "--init", folder / "init.safetensors", "--metrics", folder / "metrics", "--out", folder / "out"],
                       check=True, stderr=subprocess.DEVNULL)
        ours = [json.loads(line)["loss"] for line in open(folder / "metrics")]
        after = read_safetensors(next((folder / "out").glob("*.safetensors")))
    optimizer = torch.optim.SGD(weights.parameters.values(), lr=a.lr, momentum=0.9, weight_decay=5e-4)
    worst = 0.0
    for step, (x, y) in enumerate(data):
        loss = F.cross_entropy(net(weights, x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gap = abs(ours[step] - loss.item()) / abs(loss.item())
        worst = max(worst, gap)
        print(f"step {step + 1:3}  neap {ours[step]:.7f}  torch {loss.item():.7f}  relative {gap:.1e}")
    statistics = 0.0
    for name, (mean, variance) in weights.running.items():
        for key, value in ((".running_mean", mean), (".running_variance", variance)):
            statistics = max(statistics, ((after[name + key] - value).abs().max() / value.abs().max()).item())
    print(f"largest relative difference: losses {worst:.1e}, running statistics {statistics:.1e}")
    sys.exit(0 if worst <= 1e-4 else 1)


main()
