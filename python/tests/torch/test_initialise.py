"""Weights of PyTorch's residual network by torchvision's names, in the zoo's by a map: the same logits."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import native
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# From torchvision's names to the zoo's.
MAP = ",".join(
    [
        "*bn?.*=*norm?.*",
        "*downsample.0.*=*conv3.*",
        "*downsample.1.*=*norm3.*",
        "*norm?.weight=*norm?.gamma",
        "*norm?.bias=*norm?.beta",
        "*.running_var=*.running_variance",
        "layer?.0.*=stage?.block1.*",
        "layer?.1.*=stage?.block2.*",
        "conv1.*=stem.conv1.*",
        "norm1.*=stem.norm1.*",
        "fc.*=head.linear1.*",
    ]
)


class Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or before != width:
            self.downsample = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """He et al. 2016, with the names that torchvision has."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = (64, 64, 128, 256, 512)
        for stage in range(1, 5):
            stride = 1 if stage == 1 else 2
            blocks = Block(widths[stage - 1], widths[stage], stride), Block(widths[stage], widths[stage], 1)
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.numpy().tobytes()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        place = [len(data), len(data) + len(values)]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": place}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_resnet18(library: native.Library, tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = ResNet18().eval()
    assert sum(p.numel() for p in net.parameters()) == 11_689_512  # as published
    for name, buffer in net.named_buffers():
        if "running" in name:
            buffer.uniform_(0.5, 1.5) if "var" in name else buffer.uniform_(-0.2, 0.2)
    path = tmp_path / "resnet18.safetensors"
    write_safetensors(path, net.state_dict())
    image = np.random.default_rng(2).standard_normal((2, 3, 64, 64), np.float32)
    with (
        native.model(library, "resnet18", batch=2, image=(3, 64, 64)) as graph,
        native.session(library, graph, predict=True) as session,
    ):
        session.initialise(path, MAP)
        session.fill("image", image)
        session.predict()
        logits = net(torch.from_numpy(image)).detach().numpy()
        assert np.abs(session.output("logits") - logits).max() < 1e-4 * np.abs(logits).max()
