"""Budgets for other libraries' trainers: transformers and TRL (attach), Lightning (LightningBudget)."""

from .hugging_face import Attached, attach

__all__ = ["Attached", "attach"]


def __getattr__(name: str) -> object:
    if name == "LightningBudget":  # loads Lightning only when it is used
        from .lightning import LightningBudget

        return LightningBudget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
