"""`jax.experimental.compilation_cache`: the folder in which compiled programs are kept, a setting in xpr."""

from __future__ import annotations

import os
from typing import Any

from xpr.config import DEFAULT_CACHE, config

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Sets the folder in which compiled programs are kept; the same as the setting `compilation_cache_dir`.

    Args:
      path: the folder; None for no cache.

    Returns:
      None.

    >>> import xpr
    >>> from xpr.experimental.compilation_cache import compilation_cache
    >>> before = xpr.config.compilation_cache_dir
    >>> compilation_cache.set_cache_dir(None)
    >>> xpr.config.update("compilation_cache_dir", before)
    """
    folder: Any = "" if path is None else os.fspath(path)
    config.update("compilation_cache_dir", folder)


def reset_cache() -> None:
    """Sets the folder to the default one.

    Returns:
      None.

    >>> import xpr
    >>> from xpr.experimental.compilation_cache import compilation_cache
    >>> before = xpr.config.compilation_cache_dir
    >>> compilation_cache.reset_cache()
    >>> xpr.config.update("compilation_cache_dir", before)
    """
    config.update("compilation_cache_dir", DEFAULT_CACHE)
