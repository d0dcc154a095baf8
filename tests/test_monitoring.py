"""Events and who is told of them."""

import pytest

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
