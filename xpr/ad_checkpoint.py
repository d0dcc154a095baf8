"""Rematerialization: what the gradient keeps of the forward pass, and what it computes again."""

from xpr.api.residuals import predicted_memory as predicted_memory
from xpr.api.residuals import print_saved_residuals as print_saved_residuals
from xpr.api.residuals import saved_residuals as saved_residuals
from xpr.control import checkpoint_policies as checkpoint_policies
from xpr.control.checkpoint import checkpoint as checkpoint
from xpr.control.checkpoint import remat as remat
from xpr.control.checkpoint_policies import Recompute as Recompute
from xpr.control.checkpoint_policies import Saveable as Saveable
from xpr.control.checkpoint_policies import checkpoint_name as checkpoint_name
from xpr.control.memory import PredictedMemory as PredictedMemory
