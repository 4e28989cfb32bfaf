"""Neap for PyTorch: a budget in bytes for the training of any nn.Module.

compile_step     compiles a whole training step; guarantees its bytes
attach           puts the Trainer of transformers, or one of TRL, inside a budget: one line before train()
LightningBudget  is the callback for Lightning's Trainer
plan             tells whether a step fits and where its bytes go, before its memory exists
backend          is the backend of torch.compile(model, backend="neap", options={"budget": ...}), with the usual loop
last_plans       returns the memory of the graphs that the backend compiled last
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
