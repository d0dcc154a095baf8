from collections.abc import Callable
from typing import Any

def bind(
    array: type, known_calls: type, context: Any, settings: Any, registered: dict[type, Any],
    plain_type: Callable[..., Any], put: Callable[..., Any], new_buffers: Callable[..., Any],
    keep_until_done: Callable[..., Any], flatten_nodes: Callable[..., Any], cache_key: Callable[..., Any], /,
) -> None: ...  # fmt: skip
def call_known(known: Any, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any: ...
def flatten_plain(tree: Any, /) -> tuple[list[Any], Any] | None: ...

class KnownCaller:
    known: Any
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
