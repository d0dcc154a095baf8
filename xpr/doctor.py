"""Which devices xpr can use on this machine: `xpr.doctor()`, or `python -m xpr.doctor`."""

import sys
from types import ModuleType

from xpr.api.doctor import doctor, report

__all__ = ["doctor", "report"]


class CallableModule(ModuleType):
    """A module that can be called: importing it would otherwise hide the function of the same name."""

    __call__ = staticmethod(doctor)
    doctor = staticmethod(doctor)
    report = staticmethod(report)


sys.modules[__name__].__class__ = CallableModule

if __name__ == "__main__":
    doctor()
