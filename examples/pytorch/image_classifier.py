"""Trains torchvision's ResNet-18 inside a memory budget: the usual loop, with `step(x, y)` in place of its middle.

    python image_classifier.py --budget 80%
    python image_classifier.py --budget 500MiB --data DIR      # a folder of pictures for each class
    python image_classifier.py --eager                         # the same without Neap: the same losses, bit for bit
    python image_classifier.py --save run.pt --stop 8          # ... and: --resume run.pt

A budget that cannot be met is an answer: exit status 3, and the least that can be.
"""

from __future__ import annotations

import argparse
import sys

import neap
import neap.torch
import torch
import torchvision
from torch.nn import functional as F


def synthetic(images: int, size: int, classes: int, seed: int) -> torch.utils.data.Dataset:
    """Noise around one picture for each class: something that can be learnt."""
    prototypes = torch.randn(classes, 3, size, size, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (images,), generator=generator)
    noise = torch.randn(images, 3, size, size, generator=generator)
    return torch.utils.data.TensorDataset(prototypes[labels] + noise, labels)


def datasets(options: argparse.Namespace) -> tuple[torch.utils.data.Dataset, torch.utils.data.Dataset, int]:
    """What to train on, what to test on, the number of classes."""
    if options.data is None:
        train = synthetic(4 * options.batch, options.size, options.classes, 1)
        return train, synthetic(2 * options.batch, options.size, options.classes, 2), options.classes
    t = torchvision.transforms
    transform = t.Compose(
        [t.Resize(options.size), t.CenterCrop(options.size), t.ToTensor(), t.Normalize([0.5] * 3, [0.25] * 3)]
    )
    everything = torchvision.datasets.ImageFolder(options.data, transform)
    parts = torch.utils.data.random_split(everything, [0.9, 0.1], torch.Generator().manual_seed(1))
    return parts[0], parts[1], len(everything.classes)


def accuracy(model: torch.nn.Module, loader: torch.utils.data.DataLoader) -> float:
    """Plain PyTorch, between steps. A budget is that of the training step: batches for testing are the user's to choose."""
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def loss_of(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y, label_smoothing=0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--budget", default="80%", help='"200MiB", "60%%" of what keeping everything needs, "min" or "max"'
    )
    parser.add_argument("--eager", action="store_true", help="train without Neap")
    parser.add_argument("--data", metavar="DIR", help="a folder of pictures for each class; otherwise made-up ones")
    parser.add_argument("--classes", type=int, default=10, help="of the made-up pictures")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=64, help="height and width of a picture")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument(
        "--stop", type=int, metavar="STEP", help="stop behind this step; the learning rate is that for all --steps"
    )
    parser.add_argument("--test-every", type=int, default=8, metavar="STEPS")
    parser.add_argument("--save", metavar="FILE")
    parser.add_argument("--resume", metavar="FILE")
    options = parser.parse_args()

    torch.manual_seed(0)
    train, test, classes = datasets(options)
    # Batches of one size: each size has a plan of its own.
    loader = torch.utils.data.DataLoader(train, options.batch, drop_last=True)
    test_loader = torch.utils.data.DataLoader(test, options.batch)
    if len(loader) == 0:
        parser.error(f"there are {len(train)} pictures, fewer than a batch of {options.batch}")

    model = torchvision.models.resnet18(weights=None, num_classes=classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    done = 0
    if options.resume:
        saved = torch.load(options.resume, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        done = saved["step"]

    def eager_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    step = eager_step if options.eager else neap.torch.compile_step(model, loss_of, optimizer, budget=options.budget)
    last = options.steps if options.stop is None else min(options.stop, options.steps)
    try:
        while done < last:
            for number, (x, y) in enumerate(loader):
                if number < done % len(loader) or done >= last:  # where a resumed run goes on within the epoch
                    continue
                loss = step(x, y)
                rate = scheduler.get_last_lr()[0]
                scheduler.step()
                done += 1
                print(f"step {done}  loss {loss.item():.9g}  rate {rate:.4f}", flush=True)
                if done % options.test_every == 0 or done == options.steps:
                    print(f"step {done}  accuracy {accuracy(model, test_loader):.3f}", flush=True)
    except neap.OverBudget as error:
        print(error, file=sys.stderr)
        return 3
    if not options.eager and step.last is not None:
        print(step.memory)
    if options.save:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "step": done,
        }
        torch.save(state, options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
