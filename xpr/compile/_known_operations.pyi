from collections.abc import Callable
from typing import Any

def bind(
    array: type,
    plan: type,
    settings: Any,
    without_warnings: Any,
    aval_of: Callable[[Any], Any],
    host_value: Callable[[Any, Any], Any],
    operand_buffer: Callable[[Any, Any], Any],
    /,
) -> None: ...
def run_known(primitive: Any, args: Any, params: dict[str, Any], /) -> Any: ...
