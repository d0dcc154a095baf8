"""The log of what checkpointed functions save for their backward pass.

It is a warning of the logger "xpr" where the setting `log_checkpoint_residuals` is on, and a message of the level DEBUG
where it is off.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xpr.config import logger, settings
from xpr.control.groups import split_list
from xpr.core.avals import ShapedArray
from xpr.core.jaxpr import Jaxpr
from xpr.core.source import summarize

_DEBUG, _WARNING = 10, 30  # the levels `logging.DEBUG` and `logging.WARNING`


def log_saved(inputs: Sequence[ShapedArray], forward: Jaxpr, num_results: int) -> None:
    """Logs the types of the arguments that are saved, and the operations whose results `forward` returns for it."""
    if settings.log_checkpoint_residuals:
        level = _WARNING
    elif "logging" in sys.modules and logger().isEnabledFor(_DEBUG):  # without the import nobody has asked for it
        level = _DEBUG
    else:
        return
    _, saved = split_list(forward.outvars, num_results)
    text = "remat-decorated function"
    if inputs or not saved:
        text += "".join([" saving inputs with shapes:", *(f"\n  {aval.str_short()}" for aval in inputs)])
    if saved:
        origins = {v: eqn for eqn in forward.eqns for v in eqn.outvars}
        lines = [
            f"\n  {v.aval.str_short()} output of {origins[v].primitive.name} from {summarize(origins[v].source)}"
            if v in origins
            else f"\n  {v.aval.str_short()}"
            for v in saved
        ]
        text += "".join(["\nand" if inputs else "", " saving these intermediates:", *lines])
    logger().log(level, text)
