"""Lightning inside a memory budget: one callback, `neap.torch.LightningBudget`.

python lightning_budget.py            # a small net on random pictures
python lightning_budget.py --eager    # without Neap: the same losses, bit for bit
"""

from __future__ import annotations

import sys

import lightning.pytorch as pl
import neap.torch
import torch
from torch import nn
from torch.nn import functional as F


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        blocks = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(4)]
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, outputs: dict[str, torch.Tensor], batch: object, batch_idx: int) -> None:
        print(f"step {self.global_step}  loss {float(outputs['loss']):.9g}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


pl.seed_everything(1, verbose=False)
module = Classifier()
pictures = torch.utils.data.TensorDataset(torch.randn(64, 3, 16, 16), torch.randint(10, (64,)))
budget = neap.torch.LightningBudget("70%")  # or "2GiB", "min", a number of bytes
trainer = pl.Trainer(
    max_epochs=1,
    accelerator="cpu",
    gradient_clip_val=1.0,
    callbacks=[] if "--eager" in sys.argv else [budget],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, torch.utils.data.DataLoader(pictures, batch_size=8))
if "--eager" not in sys.argv:
    print(budget.memory)
    print("largest batch in 64MiB:", budget.largest_batch(module, pictures[:8], budget="64MiB"))
