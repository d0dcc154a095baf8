"""Two things of one name. `xpr.checkpoint(f)` rematerializes; `save` and `restore` keep pytrees of arrays on disk.

>>> import tempfile, xpr, xpr.numpy as jnp
>>> folder, state = tempfile.mkdtemp(), {"w": jnp.ones(2), "epoch": 3}
>>> path = xpr.checkpoint.save(folder, state, step=100, keep=3)
>>> xpr.checkpoint.latest(folder), xpr.checkpoint.restore(folder)
(100, {'w': Array([1., 1.], dtype=float32), 'epoch': 3})
>>> xpr.grad(xpr.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(2.0)
Array(-0.2556391, dtype=float32, weak_type=True)
"""

import sys
from types import ModuleType

from xpr.checkpoint.numbered import latest as latest
from xpr.checkpoint.numbered import steps as steps
from xpr.checkpoint.restoring import restore as restore
from xpr.checkpoint.saving import save as save
from xpr.control.remat.checkpoint import checkpoint as checkpoint

__all__ = ["checkpoint", "latest", "restore", "save", "steps"]


class CallableModule(ModuleType):
    """A module and a function of one name: importing the one would otherwise hide the other."""

    __call__ = staticmethod(checkpoint)
    checkpoint = staticmethod(checkpoint)
    latest = staticmethod(latest)
    restore = staticmethod(restore)
    save = staticmethod(save)
    steps = staticmethod(steps)


sys.modules[__name__].__class__ = CallableModule
__wrapped__ = checkpoint  # what inspect.signature shows
