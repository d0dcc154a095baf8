"""Functions with rules of their own for `vmap`."""

from xpr.control.custom.custom_vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
