"""Rematerialization: what the gradient keeps of the forward pass, and what it computes again."""

from xpr.control import checkpoint_policies as checkpoint_policies
from xpr.control.checkpoint import checkpoint as checkpoint
from xpr.control.checkpoint import remat as remat
from xpr.control.checkpoint_policies import checkpoint_name as checkpoint_name
