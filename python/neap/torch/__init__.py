"""Neap for PyTorch: a budget in bytes for the training of any nn.Module.

compile_step   a whole training step, its bytes guaranteed
attach         the Trainer of transformers and those of TRL: one line before train()
LightningBudget  the callback for Lightning's Trainer
plan           will it fit, and where do the bytes go: before there is memory
backend        torch.compile(model, backend="neap", options={"budget": ...}): the usual loop stays as it is
last_plans     the memory of what the backend compiled last
"""

from . import trainers
from .backend import last_plans
from .batch import Sum
from .compile_step import CompiledStep, ModelChanged, compile_step
from .graph import CannotTrace
from .head import chunked_cross_entropy
from .memory import Memory
from .report import Report, plan
from .trainers import Attached, attach

__all__ = [
    "Attached",
    "CannotTrace",
    "CompiledStep",
    "Memory",
    "ModelChanged",
    "Report",
    "Sum",
    "attach",
    "chunked_cross_entropy",
    "compile_step",
    "last_plans",
    "plan",
]


def __getattr__(name: str) -> object:
    if name == "LightningBudget":
        return trainers.LightningBudget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
