"""What xpr found on this machine: `xpr.doctor()`, or `python -m xpr.doctor`."""

import sys
from types import ModuleType

from xpr.api.doctor import doctor, report

__all__ = ["doctor", "report"]


class _CallableModule(ModuleType):
    """A module and a function of one name: importing the one would otherwise hide the other."""

    def __call__(self) -> None:
        doctor()


sys.modules[__name__].__class__ = _CallableModule

if __name__ == "__main__":
    doctor()
