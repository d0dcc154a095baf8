"""Events and who is told of them."""

import pytest

import xpr
import xpr.numpy as jnp
from xpr import monitoring

KINDS = {
    "event": ("register_event_listener", "unregister_event_listener", "record_event", ()),
    "duration": (
        "register_event_duration_secs_listener", "unregister_event_duration_listener", "record_event_duration_secs",
        (0.5,),
    ),
    "span": (
        "register_event_time_span_listener", "unregister_event_time_span_listener", "record_event_time_span",
        (1.0, 2.0),
    ),
    "scalar": ("register_scalar_listener", "unregister_scalar_listener", "record_scalar", (3,)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_listeners(kind):
    register, unregister, record, measured = KINDS[kind]
    told = []

    def listener(*args, **kwargs):
        told.append((args, kwargs))

    getattr(monitoring, register)(listener)
    getattr(monitoring, record)("/step", *measured, number=1)
    getattr(monitoring, unregister)(listener)
    getattr(monitoring, record)("/step", *measured)
    assert told == [(("/step", *measured), {"number": 1})]
    with pytest.raises(ValueError, match="is not registered as a listener of this kind"):
        getattr(monitoring, unregister)(listener)


def test_all_are_removed():
    told = []
    monitoring.register_event_listener(lambda event: told.append(event))
    monitoring.clear_event_listeners()
    monitoring.record_event("/step")
    assert not told


@pytest.fixture
def durations():
    told = []
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **kwargs: told.append((event, seconds, kwargs))
    )
    yield told
    monitoring.clear_event_listeners()


def test_compilations_are_told_of(durations):
    @xpr.jit
    def tripled(x):
        return x * 3 + 1

    tripled(jnp.ones(7)), tripled(jnp.ones(7))
    names = [event.rsplit("/")[-1] for event, _, kwargs in durations if kwargs["fun_name"] == "tripled"]
    assert names == ["jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration"]
    assert all(seconds > 0 for _, seconds, _ in durations)


def test_the_cache_on_disk_is_told_of(tmp_path):
    told = []
    monitoring.register_event_listener(lambda event, **kwargs: told.append(event.rsplit("/")[-1]))
    try:
        before = xpr.config.compilation_cache_dir
        xpr.config.update("compilation_cache_dir", str(tmp_path))
        for _ in range(2):
            xpr.clear_caches()
            xpr.jit(lambda x: x * 41 - 3)(jnp.ones(5))
    finally:
        xpr.config.update("compilation_cache_dir", before)
        monitoring.clear_event_listeners()
    assert told[:2] == ["compile_requests_use_cache", "cache_misses"]
    assert told[-2:] == ["compile_requests_use_cache", "cache_hits"]
