"""The bottom interpreter of a thread, which runs operations, as the settings and the current mesh ask for.

Inside of `set_mesh` operations run on the devices of the mesh. While `debug_nans`, `debug_infs`, `debug_key_reuse` or a
`transfer_guard` is set they are checked, and while `no_execution` is set they are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from xpr.backend.mesh import Mesh
from xpr.compile import transfer_guard as guard
from xpr.compile.check_values import CheckingTrace
from xpr.compile.evaluate import EvalTrace
from xpr.compile.key_reuse import KeyReuseTrace
from xpr.compile.over_mesh import MeshTrace
from xpr.config import after_update, config, override, settings
from xpr.config_contexts import readable
from xpr.core.interpreter import context, current, install_base
from xpr.core.primitive import Primitive

__all__ = [
    "debug_infs", "debug_key_reuse", "debug_nans", "no_execution", "transfer_guard", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host", "transfer_guard_host_to_device",
]  # fmt: skip


class RefusingTrace(EvalTrace):
    """The interpreter of the setting `no_execution`, which refuses to run operations."""

    __slots__ = ()
    runs_programs = False
    runs_known_calls = False

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        raise RuntimeError(f"{params.get('name', primitive)} would be run, and no_execution is set.")


def _bottom(mesh: Mesh | None) -> EvalTrace:
    """The interpreter for the settings of this thread, over a mesh where there is one."""
    trace = EvalTrace() if mesh is None else MeshTrace(mesh)
    if settings.no_execution:
        return RefusingTrace()
    if settings.debug_nans or settings.debug_infs:
        trace = CheckingTrace(trace, settings.debug_nans, settings.debug_infs)
    if settings.debug_key_reuse:
        trace = KeyReuseTrace(trace)
    if guard.is_on():
        guard.in_use = True
        trace = guard.GuardingTrace(trace)
    return trace


@contextmanager
def _with_settings(**values: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(override(name, value))
        if isinstance(context.trace, EvalTrace):  # while something is traced there is nothing to check
            stack.enter_context(current(_bottom(settings.program_mesh)))
        yield


def debug_nans(new_val: bool = True) -> Any:
    """A context manager in which every result is checked, and a nan is a FloatingPointError.

    The error names the equation and the user's line. A compiled program (`jit`, a loop) whose result holds
    a nan is run again equation by equation to find the first one; in a backward pass the error names the forward line
    whose cotangent it is. `config.update("debug_nans", True)`, or XPR_DEBUG_NANS=1, sets it for the process.

    Raises:
      FloatingPointError: inside, where a result is nan.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.debug_nans(True):
    ...     jnp.log(-jnp.ones(2))
    Traceback (most recent call last):
        ...
    FloatingPointError: invalid value (nan) encountered in log, in 2 of 2 elements.
      b:f32[2] = log a
      a: f32[2], from -1 to -1
      at <doctest ...>:2 (<module>): jnp.log(-jnp.ones(2))
    """
    return _with_settings(debug_nans=new_val)


def debug_infs(new_val: bool = True) -> Any:
    """A context manager in which every result is checked, and an infinity is a FloatingPointError.

    See `debug_nans`.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.debug_infs(True):
    ...     jnp.ones(()) / 2
    Array(0.5, dtype=float32)
    """
    return _with_settings(debug_infs=new_val)


def debug_key_reuse(new_val: bool = True) -> Any:
    """A context manager in which a random key that is used twice is an error: it would give the same numbers twice.

    Keys with a dtype of their own are followed, those of `random.key`: through operations, and into jitted functions,
    loops and branches. Drawing numbers and splitting consume a key; `random.clone` gives one for a second use on
    purpose. `config.update("debug_key_reuse", True)`, or XPR_DEBUG_KEY_REUSE=1, sets it for the process.

    Raises:
      KeyReuseError: inside, where a key is used again.

    >>> from xpr import debug_key_reuse, random
    >>> with debug_key_reuse():
    ...     key = random.key(0)
    ...     x = random.normal(key)
    ...     y = random.uniform(key)
    Traceback (most recent call last):
        ...
    xpr.errors.KeyReuseError: uniform: the random key is already consumed, and would give the same numbers again.
      first at <doctest ...>:3 (<module>): x = random.normal(key)
      again at <doctest ...>:4 (<module>): y = random.uniform(key)
    Make new keys with random.split(key) or random.fold_in(key, i), each for one use; random.clone(key) is for a \
second use on purpose.
    """
    return _with_settings(debug_key_reuse=new_val)


def no_execution(new_val: bool = True) -> Any:
    """A context manager in which an operation, or a program, that would be run is a RuntimeError; tracing is not.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.no_execution():
    ...     xpr.make_jaxpr(jnp.sin)(1.0).out_avals
    [ShapedArray(float32[], weak_type=True)]
    """
    return _with_settings(no_execution=new_val)


def transfer_guard(new_val: str) -> Any:
    """A context manager that sets what happens where arrays are moved between host and devices, or between devices.

    Explicit transfers are those of `device_put` and `device_get`. All others are implicit: a NumPy array or a Python
    number as an operand, an operand on another device, or an array of an accelerator that is printed or read by NumPy.
    What a compiled program has as a constant is not transferred, and an array on the CPU is in the host's memory.
    `config.update("transfer_guard", ...)`, or XPR_TRANSFER_GUARD, sets it for the process.

    Args:
      new_val: "allow", "log" (implicit transfers, as warnings of the logger "xpr"), "disallow" (implicit ones),
        "log_explicit" and "disallow_explicit" (all).

    Returns:
      The context manager, which may also decorate a function.

    Raises:
      ValueError: `new_val` is none of these.
      TransferError: inside, where a transfer is refused.

    >>> import numpy as np, xpr
    >>> with xpr.transfer_guard("disallow"):
    ...     x = xpr.device_put(np.ones(2))
    ...     x + np.ones(2)
    Traceback (most recent call last):
        ...
    xpr.errors.TransferError: Implicit host-to-device transfer of an array of type f32[2], and \
transfer_guard_host_to_device is "disallow". Move it before, with device_put or device_get, or allow it: with \
xpr.transfer_guard_host_to_device("allow").
    """
    return _with_settings(**dict.fromkeys(("transfer_guard", *_GUARDS), new_val))


def transfer_guard_host_to_device(new_val: str) -> Any:
    """A `transfer_guard` for NumPy arrays and numbers that become operands or arrays.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.transfer_guard_host_to_device("disallow"):
    ...     jnp.asarray(xpr.device_put(1.0))
    Array(1., dtype=float32, weak_type=True)
    """
    return _with_settings(transfer_guard_host_to_device=new_val)


def transfer_guard_device_to_device(new_val: str) -> Any:
    """A `transfer_guard` for operands that are moved to another device.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.transfer_guard_device_to_device("disallow"):
    ...     jnp.asarray(xpr.device_put(1.0))
    Array(1., dtype=float32, weak_type=True)
    """
    return _with_settings(transfer_guard_device_to_device=new_val)


def transfer_guard_device_to_host(new_val: str) -> Any:
    """A `transfer_guard` for arrays of an accelerator that NumPy reads, or that are printed.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.transfer_guard_device_to_host("disallow"):
    ...     jnp.asarray(xpr.device_put(1.0))
    Array(1., dtype=float32, weak_type=True)
    """
    return _with_settings(transfer_guard_device_to_host=new_val)


readable(
    debug_nans, debug_infs, debug_key_reuse, no_execution, transfer_guard, transfer_guard_host_to_device,
    transfer_guard_device_to_device, transfer_guard_device_to_host,
)  # fmt: skip


def _install() -> None:
    """Makes the interpreter for the current settings the bottom one, of this thread and of those that start later."""
    install_base(_bottom(None))
    install_in_thread()


def install_in_thread() -> None:
    """Makes the interpreter for the current settings, the mesh among them, the bottom one of this thread."""
    if isinstance(context.trace, EvalTrace):
        context.trace = _bottom(settings.program_mesh)


def _guard_all() -> None:
    for name in _GUARDS:
        config.update(name, settings.transfer_guard)


_GUARDS = ("transfer_guard_host_to_device", "transfer_guard_device_to_device", "transfer_guard_device_to_host")
after_update.update(
    dict.fromkeys(("debug_nans", "debug_infs", "debug_key_reuse", "no_execution", *_GUARDS), _install),
    transfer_guard=_guard_all,
)
if settings.transfer_guard != "allow":
    _guard_all()
elif settings.debug_nans or settings.debug_infs or settings.debug_key_reuse or settings.no_execution or guard.is_on():
    _install()
