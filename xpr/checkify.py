"""Errors that depend on values, as results of compiled functions; JAX has this under jax.experimental."""

from xpr.control.checkify.checkify import ErrorCategory as ErrorCategory
from xpr.control.checkify.checkify import all_checks as all_checks
from xpr.control.checkify.checkify import automatic_checks as automatic_checks
from xpr.control.checkify.checkify import check as check
from xpr.control.checkify.checkify import check_error as check_error
from xpr.control.checkify.checkify import checkify as checkify
from xpr.control.checkify.checkify import debug_check as debug_check
from xpr.control.checkify.checkify import div_checks as div_checks
from xpr.control.checkify.checkify import float_checks as float_checks
from xpr.control.checkify.checkify import index_checks as index_checks
from xpr.control.checkify.checkify import init_error as init_error
from xpr.control.checkify.checkify import nan_checks as nan_checks
from xpr.control.checkify.checkify import user_checks as user_checks
from xpr.control.checkify.errors import Error as Error
from xpr.errors import CheckError as JaxRuntimeError
from xpr.errors import DivisionByZeroError as DivisionByZeroError
from xpr.errors import FailedCheckError as FailedCheckError
from xpr.errors import NaNError as NaNError
from xpr.errors import OOBError as OOBError

__all__ = [
    "DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError", "JaxRuntimeError", "NaNError", "OOBError",
    "all_checks", "automatic_checks", "check", "check_error", "checkify", "debug_check", "div_checks", "float_checks",
    "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip
