"""A loop with accelerate inside a memory budget: the prepared model and optimizer are given to compile_step.

python accelerate_loop.py            # a small net on random numbers
python accelerate_loop.py --eager    # without Neap: the same losses, bit for bit
"""

from __future__ import annotations

import sys

import accelerate
import neap.torch
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
data = torch.utils.data.TensorDataset(torch.randn(128, 64), torch.randint(10, (128,)))
accelerator = accelerate.Accelerator(cpu=True)
model, optimizer, loader, scheduler = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, 16), scheduler
)


def loss_fn(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


step = neap.torch.compile_step(model, loss_fn, optimizer, budget="max")  # or "2GiB", "min", a number of bytes
for number, (x, y) in enumerate(loader):
    if "--eager" in sys.argv:
        loss = loss_fn(model, x, y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    else:
        loss = step(x, y)  # forward, backward, update
    scheduler.step()
    print(f"step {number + 1}  loss {loss.item():.9g}")
if "--eager" not in sys.argv:
    print(step.memory)
