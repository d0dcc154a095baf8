"""Trees of arrays on disk: `save` writes a pytree to a folder, and `restore` reads it.

>>> import tempfile, xpr.numpy as jnp
>>> from xpr import storage
>>> folder, state = tempfile.mkdtemp(), {"w": jnp.ones(2), "epoch": 3}
>>> path = storage.save(folder, state, step=100, keep=3)
>>> storage.latest(folder), storage.restore(folder)
(100, {'w': Array([1., 1.], dtype=float32), 'epoch': 3})
"""

from xpr.storage.numbered import latest, steps
from xpr.storage.restoring import restore
from xpr.storage.saving import save

__all__ = ["latest", "restore", "save", "steps"]
