"""Errors that depend on values, as results of compiled functions; JAX has this under jax.experimental."""

from xpr.control.checkify.checkify import (
    ErrorCategory,
    all_checks,
    automatic_checks,
    check,
    check_error,
    checkify,
    debug_check,
    div_checks,
    float_checks,
    index_checks,
    init_error,
    nan_checks,
    user_checks,
)
from xpr.control.checkify.errors import Error
from xpr.errors import CheckError as JaxRuntimeError
from xpr.errors import DivisionByZeroError, FailedCheckError, NaNError, OOBError

__all__ = [
    "DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError", "JaxRuntimeError", "NaNError", "OOBError",
    "all_checks", "automatic_checks", "check", "check_error", "checkify", "debug_check", "div_checks", "float_checks",
    "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip
