"""Makes `import jax` import xpr.

    python -m xpr.as_jax script.py [arguments]      a script, and the libraries that it imports
    python -m xpr.as_jax -m pytest tests            a module
    python -m xpr.as_jax --missing script.py        the names of JAX that it uses and xpr lacks

In a program: `import xpr.as_jax`, before anything that imports jax. `jax.__version__`, and `importlib.metadata`'s
data of jax, are those of the JAX whose names and semantics xpr has; `jax.__xpr__` is xpr's own version.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from xpr.alias import missing
from xpr.alias.finder import VERSION, install

__all__ = ["VERSION", "install", "main"]

install()


def main(arguments: list[str]) -> int:
    """Runs a script or a module, as `python` would with these arguments. Returns the exit code."""
    if arguments and arguments[0] == "--missing":
        missing.recording, arguments = True, arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    if not missing.recording:
        _run(arguments)
        return 0
    try:
        _run(arguments)
    except BaseException as error:
        print(f"The program ended with {type(error).__name__}: {error}", file=sys.stderr)
    print(missing.report())
    return int(bool(missing.requested))


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
