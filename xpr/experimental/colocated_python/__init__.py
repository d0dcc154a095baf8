"""Python functions run on the host of the devices of their arguments: `jax.experimental.colocated_python`.

A colocated function is a copy of a Python function, as cloudpickle sends it to other processes. Here the copies run in
this process, whose devices are all on its host; devices of other processes are refused.
"""

from xpr.experimental.colocated_python.cpu_devices import colocated_cpu_devices
from xpr.experimental.colocated_python.functions import colocated_python
from xpr.experimental.colocated_python.objects import colocated_python_class

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
