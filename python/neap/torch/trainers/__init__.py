"""Ways into the trainers of others: transformers and TRL (attach), Lightning (LightningBudget)."""

from .hugging_face import Attached, attach

__all__ = ["Attached", "attach"]
