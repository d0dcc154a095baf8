"""Rotations beside SciPy's."""

import numpy as np
import pytest
import scipy.spatial.transform as theirs

import xpr
import xpr.numpy as jnp
from xpr.scipy.spatial import transform as ours

rng = np.random.default_rng(0)
QUATERNIONS = rng.normal(size=(6, 4))
EULER = ["xyz", "zyx", "XYZ", "ZXY", "zxz", "ZYZ", "yxy"]


def close(found, wanted, tolerance=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def both(quat=QUATERNIONS):
    return ours.Rotation.from_quat(quat), theirs.Rotation.from_quat(quat)


@pytest.fixture(autouse=True)
def in_64_bits():
    with xpr.enable_x64(True):
        yield


@pytest.mark.parametrize("quat", [QUATERNIONS, QUATERNIONS[0], np.array([0, 0, 0, 1.0]), np.array([0, -1.0, 0, 0])])
def test_conversions(quat):
    one, two = both(quat)
    close(one.as_quat(), two.as_quat())
    close(one.as_quat(canonical=True), two.as_quat(canonical=True))
    close(one.as_quat(scalar_first=True), np.roll(two.as_quat(), 1, -1))
    close(one.as_matrix(), two.as_matrix())
    close(one.as_rotvec(), two.as_rotvec())
    close(one.as_rotvec(degrees=True), two.as_rotvec(degrees=True))
    close(one.as_mrp(), two.as_mrp())
    close(one.magnitude(), two.magnitude())
    close(one.inv().as_quat(), two.inv().as_quat())
    assert one.single == two.single
    for seq in EULER:
        if quat.ndim == 2:
            close(one.as_euler(seq, degrees=True), two.as_euler(seq, degrees=True), 1e-8)


@pytest.mark.filterwarnings("ignore:Gimbal lock")
@pytest.mark.parametrize("seq", EULER)
@pytest.mark.parametrize("kind", [0, 1])
def test_angles_where_two_axes_are_one(seq, kind):
    middle = ([0.0, np.pi] if seq[0] == seq[2] else [np.pi / 2, -np.pi / 2])[kind]
    two = theirs.Rotation.from_euler(seq, [0.3, middle, 0.5])
    found = ours.Rotation.from_quat(two.as_quat()).as_euler(seq)
    close(theirs.Rotation.from_euler(seq, np.asarray(found)).as_matrix(), two.as_matrix(), 1e-7)
    close(found, two.as_euler(seq), 1e-7)


def test_made_from():
    vectors = np.concatenate([rng.normal(size=(4, 3)), np.zeros((1, 3)), [[1e-9, 0, 0], [1e-3, 2e-3, 0]]])
    for name in ("from_rotvec", "from_mrp"):
        close(getattr(ours.Rotation, name)(vectors).as_matrix(), getattr(theirs.Rotation, name)(vectors).as_matrix())
    close(ours.Rotation.from_rotvec(vectors).as_rotvec(), vectors, 1e-14)
    close(
        ours.Rotation.from_rotvec(30 * vectors, degrees=True).as_quat(),
        theirs.Rotation.from_rotvec(30 * vectors, True).as_quat(),
    )
    matrices = both()[1].as_matrix()
    close(ours.Rotation.from_matrix(matrices).as_matrix(), matrices)
    for seq in ("x", "yz", *EULER):
        angles = rng.normal(size=(4, len(seq)))
        assert not ours.Rotation.from_euler(seq, angles).as_matrix().weak_type
        close(ours.Rotation.from_euler(seq, angles).as_matrix(), theirs.Rotation.from_euler(seq, angles).as_matrix())
    close(
        ours.Rotation.from_euler("z", 30, degrees=True).as_quat(), theirs.Rotation.from_euler("z", 30, True).as_quat()
    )
    assert ours.Rotation.identity().as_quat().shape == (4,) and ours.Rotation.identity(3).as_quat().shape == (3, 4)
    joined = ours.Rotation.concatenate([ours.Rotation.identity(2), ours.Rotation.identity()])
    assert len(joined) == 3 and joined[1:].as_quat().shape == (2, 4)


def test_operations():
    one, two = both()
    vectors = rng.normal(size=(6, 3))
    close(one.apply(vectors), two.apply(vectors))
    close(one.apply(vectors[0], inverse=True), two.apply(vectors[0], inverse=True))
    close((one * one[::-1]).as_quat(), (two * two[::-1]).as_quat())
    for weights in (None, np.arange(1.0, 7)):
        close(one.mean(weights).as_matrix(), two.mean(weights).as_matrix())
    times = np.array([0, 1, 2, 4, 5, 7.0])
    at = np.array([0.0, 0.5, 2, 3.9, 7])
    close(ours.Slerp.init(times, one)(at).as_matrix(), theirs.Slerp(times, two)(at).as_matrix())
    close(ours.Slerp.init(times, one)(1.5).as_matrix(), theirs.Slerp(times, two)(1.5).as_matrix())


def test_random_rotations_are_uniform():
    drawn = ours.Rotation.random(xpr.random.key(0), 4000).as_matrix()
    assert np.abs(np.asarray(drawn).mean(0)).max() < 0.05
    assert ours.Rotation.random(xpr.random.key(0)).single


def test_are_pytrees_that_are_mapped_and_compiled():
    one, two = both()
    angles = xpr.jit(xpr.vmap(lambda rotation: rotation.inv().magnitude()))(one)
    close(angles, two.magnitude())


@pytest.mark.parametrize(
    "fun, x",
    [
        (lambda v: ours.Rotation.from_rotvec(v).as_matrix(), np.zeros(3)),
        (lambda v: ours.Rotation.from_rotvec(v).as_rotvec(), np.zeros(3)),
        (lambda v: ours.Rotation.from_rotvec(v).as_rotvec(), np.array([0.3, -0.2, 1.0])),
        (lambda q: ours.Rotation.from_quat(q).as_euler("xyz"), QUATERNIONS[0]),
        (lambda q: ours.Rotation.from_matrix(ours.Rotation.from_quat(q).as_matrix()).as_mrp(), QUATERNIONS[1]),
        (lambda q: ours.Rotation.from_quat(q).mean().as_matrix(), QUATERNIONS),
        (lambda q: ours.Slerp.init(np.arange(6.0), ours.Rotation.from_quat(q))(2.3).as_matrix(), QUATERNIONS),
    ],
)
def test_derivatives(fun, x):
    direction = rng.normal(size=x.shape)
    difference = (fun(x + 1e-6 * direction) - fun(x - 1e-6 * direction)) / 2e-6
    close(xpr.jvp(fun, (x,), (direction,))[1], difference, 1e-7)
    assert np.isfinite(xpr.jacrev(fun)(x)).all()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda r: r.from_quat(jnp.ones(3)),
            ValueError,
            r"from_quat: takes 4 elements along the last axis, and got f64\[3\]",
        ),
        (lambda r: r.from_matrix(jnp.ones(3)), ValueError, r"takes matrices \[...,3,3\], and got f64\[3\]"),
        (lambda r: r.from_euler("xx", jnp.ones(2)), ValueError, "axes are 1 to 3 letters .* and 'xx' was given"),
        (
            lambda r: r.from_euler("xy", jnp.ones(3)),
            ValueError,
            r"'xy' takes 2 angles along the last axis, and got f64\[3\]",
        ),
        (lambda r: r.identity().as_euler("xY"), ValueError, "axes are 3 letters .* and 'xY' was given"),
        (lambda r: r.identity()[0], TypeError, "single rotation, which has no elements"),
        (lambda r: len(r.identity()), TypeError, "single rotation, which has no length"),
        (lambda r: r.identity(2).mean(jnp.ones(3)), ValueError, r"2 rotations have weights \(2,\), not \(3,\)"),
        (lambda r: ours.Slerp.init(jnp.ones(2), 3), TypeError, "rotations are a Rotation, and were given as int"),
        (lambda r: ours.Slerp.init(jnp.ones(1), r.identity(1)), ValueError, "takes two rotations or more"),
        (
            lambda r: ours.Slerp.init(jnp.ones(3), r.identity(2)),
            ValueError,
            r"2 rotations have times \(2,\), not \(3,\)",
        ),
        (
            lambda r: ours.Slerp.init(jnp.arange(2.0), r.identity(2))(jnp.ones((1, 1))),
            ValueError,
            "a number or a vector",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(ours.Rotation)
