"""The collectives of a program, read from its text: every way in which HLO writes who communicates."""

import numpy as np
import pytest

import xpr
from xpr.backend.communication import Collective, collectives_of

AXES = {"x": 4, "y": 2}


def program(*lines, before=""):
    body = "\n".join(f"  %r.{i} = {line}" for i, line in enumerate(lines))
    return f"HloModule main, is_scheduled=true\n{before}\nENTRY %main (p: f32[8]) -> f32[8] {{\n{body}\n}}\n"


def only(line, before=""):
    (found,) = collectives_of(program(line, before=before), AXES)
    return found


@pytest.mark.parametrize(
    ("groups", "axes", "size"),
    [
        ("replica_groups={{0,2,4,6},{1,3,5,7}}", ("x",), 4),
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", ("y",), 2),
        ("replica_groups={{0,2},{1,3},{4,6},{5,7}}", ("x",), 2),
        ("replica_groups={{0,2,4},{6}}", ("x",), 3),
        ("replica_groups={}", ("x", "y"), 8),
        ("replica_groups=[4,2]<=[8]", ("y",), 2),
        ("replica_groups=[2,4]<=[4,2]T(1,0)", ("x",), 4),
        ("replica_groups=[1,8]<=[8]", ("x", "y"), 8),
        ("replica_groups=mesh['a'=4,'b'=2] {'b'}", ("y",), 2),
        ("replica_groups=mesh['a'=4,'b'=2] {'a'}", ("x",), 4),
        ("replica_groups=mesh['a'=4,'b'=2] {'a','b'}", ("x", "y"), 8),
        ("replica_groups=mesh['a'=2,'b'=1,'c'=4], device_ids=([4,2]T(1,0)) {'a'}", ("y",), 2),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7) {'b'}", ("x",), 4),
        ("replica_groups=mesh['a'=8] {'a':(4)2}", ("y",), 2),
        ("replica_groups=mesh['a'=8] {'a':(1)4}", ("x",), 4),
        ("replica_groups=mesh['a'=8] {'a':(2)2}", ("x",), 2),
    ],
)
def test_who_communicates(groups, axes, size):
    found = only(f"f32[8]{{0}} all-reduce(%p), channel_id=1, {groups}, use_global_device_ids=true, to_apply=%add")
    assert (found.axes, found.group_size) == (axes, size)


WHOLE = "replica_groups=[1,8]<=[8]"


@pytest.mark.parametrize(
    ("line", "kind", "size", "sent"),
    [
        (f"f32[8,2]{{1,0}} all-reduce(%p), {WHOLE}", "all-reduce", 64, 112),
        (f"(f32[8]{{0}}, /*index=1*/bf16[2,3]{{1,0:T(8,128)}}) all-reduce(%p), {WHOLE}", "all-reduce", 44, 77),
        (f"pred[] all-reduce-start(%p), {WHOLE}", "all-reduce", 1, 1.75),
        (f"c64[8] all-gather(%p), {WHOLE}", "all-gather", 64, 56),
        (f"(f32[1], f32[8]) all-gather-start(%p), {WHOLE}", "all-gather", 32, 28),
        (f"((f32[1], s8[1]), (f32[8], s8[8])) all-gather-start(%p), {WHOLE}", "all-gather", 40, 35),
        (f"f8e4m3fn[4] reduce-scatter(%p), {WHOLE}", "reduce-scatter", 32, 28),
        (f"(s4[4], s4[4]) all-to-all(%p), {WHOLE}", "all-to-all", 4, 3.5),
        ("u8[4] collective-permute(%p), source_target_pairs={{0,1},{1,0}}", "collective-permute", 4, 4),
        ("(u8[4], u8[4], u32[], u32[]) collective-permute-start(%p), source_target_pairs={{0,1}}",
         "collective-permute", 4, 4),
    ],
)  # fmt: skip
def test_sizes(line, kind, size, sent):
    found = only(line)
    assert (found.kind, found.bytes, found.sent) == (kind, size, sent)


BODY = """
%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %c = f32[] add(%a, %b)
}
%body (q: f32[8]) -> f32[8] {
  ROOT %inner = f32[8] all-reduce(%q), replica_groups=[1,8]<=[8], to_apply=%add, metadata={op_name="while(%x)"}
}
%unused (q: f32[8]) -> f32[8] {
  ROOT %inner.1 = f32[8] all-gather(%q), replica_groups=[1,8]<=[8]
}
"""


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        (['f32[8] while(%p), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"10"},"x":[]}'], 10),
        (["f32[8] while(%p), condition=%c, body=%body"], None),
        (["f32[8] call(%p), to_apply=%body", "f32[8] async-start(%p), calls=%body"], 2),
        (["f32[8] conditional(%k, %p), branch_computations={%add, %body}"], 1),
        (["f32[8] conditional(%k, %p), true_computation=%body, false_computation=%add"], 1),
        (["f32[8] while(%p), condition=%c, body=%body", "f32[8] call(%p), to_apply=%body"], None),
    ],
)
def test_how_often(lines, times):
    (found,) = collectives_of(program(*lines, before=BODY), AXES)
    assert found == Collective("all-reduce", 32, ("x", "y"), 8, times)


def test_one_device_has_none():
    assert xpr.jit(lambda x: x + 1).lower(1.0).compile().collectives() == []
    sharding = xpr.sharding.NamedSharding(xpr.make_mesh((1,), ("x",)), xpr.sharding.PartitionSpec("x"))
    compiled = xpr.jit(lambda x: x.sum(), in_shardings=sharding).lower(np.ones(4, np.float32)).compile()
    assert compiled.collectives() == [] and compiled(np.ones(4, np.float32)) == 4
