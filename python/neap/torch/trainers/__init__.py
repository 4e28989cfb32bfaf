"""Ways into the trainers of others: transformers and TRL (attach), Lightning (LightningBudget)."""

from .hugging_face import Attached, attach

__all__ = ["Attached", "attach"]


def __getattr__(name: str) -> object:
    if name == "LightningBudget":  # Lightning is loaded only where it is wanted
        from .lightning import LightningBudget

        return LightningBudget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
