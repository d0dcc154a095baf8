"""Settings as context managers: `with enable_x64(True): ...` changes a setting for this thread and block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xpr.config import Settings, override

__all__ = [
    "allow_f16_reductions", "check_tracer_leaks", "checking_leaks", "default_device", "default_matmul_precision",
    "default_prng_impl", "disable_jit", "enable_checks", "enable_custom_prng", "enable_x64", "explain_cache_misses",
    "legacy_prng_key", "log_compiles", "no_tracing", "numpy_dtype_promotion", "numpy_rank_promotion",
    "threefry_partitionable", "traceback_filtering", "while_checkpoints",
]  # fmt: skip


def enable_x64(new_val: bool = True) -> Any:
    """A context manager in which 64-bit dtypes are on (or off).

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.enable_x64(True):
    ...     jnp.zeros(3).dtype
    dtype('float64')
    """
    return override("enable_x64", new_val)


def disable_jit(disable: bool = True) -> Any:
    """A context manager in which jitted functions run op by op, so that prints and debuggers see values.

    >>> import xpr
    >>> with xpr.disable_jit():
    ...     _ = xpr.jit(lambda x: print("x is", x))(1)
    x is 1
    """
    return override("disable_jit", disable)


def traceback_filtering(mode: str | bool = True) -> Any:
    """A context manager that sets what tracebacks of errors show of xpr's own frames.

    Args:
      mode: "auto", or True, removes them; "off", or False, shows them. "quiet_remove_frames" removes them with a note
        that says so, "remove_frames" with the whole traceback as the error's `__cause__`, and "tracebackhide" marks
        them for IPython and pytest, which hide such frames.

    Raises:
      ValueError: there is no such mode.

    >>> import xpr
    >>> with xpr.traceback_filtering("off"):
    ...     xpr.jit(lambda x: x + 1)(1)
    Array(2, dtype=int32, weak_type=True)
    """
    return override("traceback_filtering", mode)


def default_device(new_val: Any) -> Any:
    """A context manager that sets the device on which new arrays are put and programs run.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.default_device(xpr.devices("cpu")[0]):
    ...     jnp.ones(2).device.platform
    'cpu'
    """
    return override("default_device", new_val)


def default_matmul_precision(new_val: str | None = None) -> Any:
    """A context manager that sets how exactly accelerators multiply, if a product has no `precision`.

    Args:
      new_val: a name that `lax.Precision` takes: "default", "high", "highest", "tensorfloat32", "float32".

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.default_matmul_precision("float32"):
    ...     print(xpr.make_jaxpr(jnp.dot)(jnp.ones(2), jnp.ones(2)).eqns[0].params["precision"])
    (Precision.HIGHEST, Precision.HIGHEST)
    """
    return override("default_matmul_precision", new_val)


def while_checkpoints(number: int) -> Any:
    """A context manager that sets how many carries reverse mode through a `while_loop` stores.

    Rounded down to a power of two. With fewer, steps are recomputed more often.

    >>> import xpr
    >>> from xpr import lax
    >>> def f(x):
    ...     return lax.while_loop(lambda c: c < 100.0, lambda c: c * x, 1.0)
    >>> with xpr.while_checkpoints(2):
    ...     xpr.grad(f)(3.0)
    Array(405., dtype=float32, weak_type=True)
    """
    return override("while_checkpoints", number)


def numpy_rank_promotion(new_val: str) -> Any:
    """A context manager that sets what happens when operands of different numbers of axes are broadcast.

    Args:
      new_val: "allow", "warn" (a UserWarning), or "raise" (a ValueError). Scalars are always broadcast, and so are
        operands of operations inside of xpr's own functions.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.numpy_rank_promotion("raise"):
    ...     jnp.ones((2, 3)) + jnp.ones(3)
    Traceback (most recent call last):
        ...
    ValueError: operands with shapes (2, 3) and (3,) require rank promotion, and numpy_rank_promotion is \
"raise". Reshape the shorter one, as in x[None, :], or set it to "allow".
    """
    return override("numpy_rank_promotion", new_val)


def numpy_dtype_promotion(new_val: str) -> Any:
    """A context manager that sets whether operands of different dtypes are converted to a common one.

    Args:
      new_val: "standard", or "strict": Python scalars alone are converted, to a dtype of their own kind, and all
        else is a TypePromotionError. What xpr's own functions do inside is not looked at.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.numpy_dtype_promotion("strict"):
    ...     jnp.ones(3) + jnp.arange(3)
    Traceback (most recent call last):
        ...
    xpr.errors.TypePromotionError: Input dtypes float32 and int32 have no available implicit dtype promotion path: \
they are not converted implicitly while numpy_dtype_promotion is "strict". Convert one of them with .astype().
    """
    return override("numpy_dtype_promotion", new_val)


def allow_f16_reductions(new_val: bool = True) -> Any:
    """A context manager that sets whether `lax.reduce_sum` may sum floats of 16 bits.

    Off, it is an error, which finds sums that would be rounded to their few digits. `jnp.sum` and other reductions sum
    in float32, and round the result alone.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> with xpr.allow_f16_reductions(False):
    ...     lax.reduce_sum(jnp.ones(3, "bfloat16"), (0,))
    Traceback (most recent call last):
        ...
    ValueError: reduce_sum: sums of bf16[3] are not allowed while the setting allow_f16_reductions is off. Convert it \
to float32 first, or call jnp.sum, which does.
    """
    return override("allow_f16_reductions", new_val)


def legacy_prng_key(new_val: str) -> Any:
    """A context manager that sets what happens when random keys are arrays of uint32: "allow", "warn", "error".

    >>> import xpr
    >>> with xpr.legacy_prng_key("error"):
    ...     xpr.random.key(0).shape
    ()
    """
    return override("legacy_prng_key", new_val)


def enable_custom_prng(new_val: bool = True) -> Any:
    """A context manager in which `random.PRNGKey` makes typed keys, as `random.key` does.

    >>> import xpr
    >>> with xpr.enable_custom_prng():
    ...     xpr.random.PRNGKey(0).dtype
    key<fry>
    """
    return override("enable_custom_prng", new_val)


def default_prng_impl(new_val: str) -> Any:
    """A context manager that sets the generator of keys that are made without one.

    It is "threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg" or "unsafe_rbg", and also that of keys that
    are arrays of uint32.

    >>> import xpr
    >>> with xpr.default_prng_impl("rbg"):
    ...     xpr.random.key(0).dtype
    key<rbg>
    """
    return override("default_prng_impl", new_val)


def threefry_partitionable(new_val: bool = True) -> Any:
    """A context manager in which threefry2x32 numbers elements one by one (or, off, in halves, as JAX did before 0.5).

    The numbers differ. On several devices only the first way computes each element where it is needed.

    >>> import xpr
    >>> with xpr.threefry_partitionable(False):
    ...     xpr.random.bits(xpr.random.key(0), (2,))
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    return override("threefry_partitionable", new_val)


def log_compiles(new_val: bool = True) -> Any:
    """A context manager in which each tracing and compiling of a jitted function is logged, as a warning.

    >>> import xpr
    >>> with xpr.log_compiles():
    ...     xpr.jit(lambda x: x + 1)(1)
    Array(2, dtype=int32, weak_type=True)
    """
    return override("log_compiles", new_val)


def explain_cache_misses(new_val: bool = True) -> Any:
    """A context manager that logs, as a warning, why a call of a jitted function is traced again.

    >>> import xpr
    >>> with xpr.explain_cache_misses():
    ...     xpr.jit(lambda x: x + 1)(1)
    Array(2, dtype=int32, weak_type=True)
    """
    return override("explain_cache_misses", new_val)


def check_tracer_leaks(new_val: bool = True) -> Any:
    """A context manager in which tracing fails if a tracer outlives the function it was made for.

    It makes tracing slow.

    >>> import xpr
    >>> kept = []
    >>> with xpr.check_tracer_leaks():
    ...     _ = xpr.jit(lambda x: kept.append(x))(1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    xpr.errors.LeakedTracerError: ...
    """
    return override("check_tracer_leaks", new_val)


checking_leaks = check_tracer_leaks  # both are JAX's names


def enable_checks(new_val: bool = True) -> Any:
    """A context manager in which every jaxpr is type-checked as soon as it is traced.

    >>> import xpr
    >>> with xpr.enable_checks():
    ...     xpr.jit(lambda x: x + 1)(1)
    Array(2, dtype=int32, weak_type=True)
    """
    return override("enable_checks", new_val)


def no_tracing(new_val: bool = True) -> Any:
    """A context manager in which a jitted function that would be traced again is a RuntimeError.

    >>> import xpr
    >>> f = xpr.jit(lambda x: x + 1)
    >>> _ = f(1)
    >>> with xpr.no_tracing():
    ...     f(2)
    Array(3, dtype=int32, weak_type=True)
    """
    return override("no_tracing", new_val)


def _of_process(name: str) -> Any:
    """The value of a setting in threads that have none of their own: `numpy_rank_promotion.get_global()`."""
    return getattr(Settings, name)


def readable(*context_managers: Callable[..., Any]) -> None:
    """Gives functions that set what they are named for a method `get_global`, as those of JAX have."""
    for function in context_managers:
        function.get_global = partial(_of_process, function.__name__)  # type: ignore[attr-defined]


readable(
    allow_f16_reductions, check_tracer_leaks, default_device, default_matmul_precision, default_prng_impl, disable_jit,
    enable_checks, enable_custom_prng, enable_x64, explain_cache_misses, legacy_prng_key, log_compiles, no_tracing,
    numpy_dtype_promotion, numpy_rank_promotion, threefry_partitionable,
)  # fmt: skip
