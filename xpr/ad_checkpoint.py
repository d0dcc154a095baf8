"""Rematerialization: what the gradient keeps of the forward pass, and what it computes again."""

from xpr.api.residuals import predicted_memory, print_saved_residuals, saved_residuals
from xpr.control.remat import policies as _policies
from xpr.control.remat.checkpoint import checkpoint, remat
from xpr.control.remat.memory import PredictedMemory
from xpr.control.remat.policies import Offloadable, Recompute, Saveable, checkpoint_name

__all__ = [
    "checkpoint", "checkpoint_name", "checkpoint_policies", "Offloadable", "predicted_memory",
    "PredictedMemory", "print_saved_residuals", "Recompute", "remat", "Saveable", "saved_residuals",
]  # fmt: skip

checkpoint_policies = _policies
