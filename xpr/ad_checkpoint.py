"""Rematerialization: what the gradient keeps of the forward pass, and what it computes again."""

from xpr.api.residuals import predicted_memory as predicted_memory
from xpr.api.residuals import print_saved_residuals as print_saved_residuals
from xpr.api.residuals import saved_residuals as saved_residuals
from xpr.control.remat import policies as _policies
from xpr.control.remat.checkpoint import checkpoint as checkpoint
from xpr.control.remat.checkpoint import remat as remat
from xpr.control.remat.memory import PredictedMemory as PredictedMemory
from xpr.control.remat.policies import Recompute as Recompute
from xpr.control.remat.policies import Saveable as Saveable
from xpr.control.remat.policies import checkpoint_name as checkpoint_name

checkpoint_policies = _policies
