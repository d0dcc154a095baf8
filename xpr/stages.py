"""`jax.stages`: what `jit(f).trace(...)`, `.lower(...)` and `.compile()` give."""

from typing import Any

from xpr.api.compiled import Compiled
from xpr.api.jit import JitFunction as Wrapped
from xpr.api.stage_base import ArgInfo
from xpr.api.stages import Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

CompilerOptions = dict[str, Any]
