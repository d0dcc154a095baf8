"""Rotations in three dimensions, as unit quaternions (x, y, z, w), and interpolation between them.

K. Shoemake, Animating rotation with quaternion curves, 1985.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr import numpy as jnp
from xpr import random as rnd
from xpr.numpy.decompositions import eigh
from xpr.numpy.indexing.take import take_along_axis
from xpr.numpy.promotion import promote_inexact

__all__ = ["Rotation", "Slerp"]

_NEAR = 1e-5  # squares up to which two terms of a series are as exact as 64 bits


class Rotation(NamedTuple):
    """Rotations, one or an array of them; a pytree.

    Attributes:
      quat: quaternions [..., 4], of which the last element is the scalar part.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.spatial.transform import Rotation
    >>> turn = Rotation.from_euler("z", 90, degrees=True)
    >>> turn.apply(jnp.array([1.0, 0.0, 0.0])).round(4)
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    # -- Made from

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One array of several arrays of rotations."""
        return cls(jnp.concatenate([jnp.atleast_2d(each.quat) for each in rotations]))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """The rotations of quaternions [..., 4] of any norm but 0."""
        return cls(_normalized(_vectors("from_quat", quat, 4)))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """The rotations of orthogonal matrices [..., 3, 3] of determinant 1.

        The largest element of the quaternion is computed first (S. Shepperd, Quaternion from rotation matrix, 1978).
        """
        m = jnp.asarray(*promote_inexact(matrix))
        if m.shape[-2:] != (3, 3):
            raise ValueError(f"Rotation.from_matrix: takes matrices [...,3,3], and got {m.aval.str_short()}.")
        trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
        choices = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            parts = {i: 1 - trace + 2 * m[..., i, i], j: m[..., j, i] + m[..., i, j], k: m[..., k, i] + m[..., i, k]}
            choices.append(jnp.stack([parts[0], parts[1], parts[2], m[..., k, j] - m[..., j, k]], -1))
        axis = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
        choices.append(jnp.stack([*axis, 1 + trace], -1))
        sizes = jnp.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], -1)
        chosen = jnp.argmax(sizes, -1)[..., None, None]
        return cls(_normalized(take_along_axis(jnp.stack(choices, -2), chosen, -2)[..., 0, :]))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """The rotations about vectors [..., 3] by angles that are their lengths."""
        v = _vectors("from_rotvec", rotvec, 3)
        v = jnp.deg2rad(v) if degrees else v
        square = jnp.sum(v * v, -1, keepdims=True)
        near = square < _NEAR
        angle = jnp.sqrt(jnp.where(near, 1, square))
        sine = jnp.where(near, 0.5 - square / 48 + square**2 / 3840, jnp.sin(angle / 2) / angle)
        cosine = jnp.where(near, 1 - square / 8 + square**2 / 384, jnp.cos(angle / 2))
        return cls(jnp.concatenate([sine * v, cosine], -1))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """The rotations of modified Rodrigues parameters [..., 3]: the axis times tan(angle / 4)."""
        v = _vectors("from_mrp", mrp, 3)
        square = jnp.sum(v * v, -1, keepdims=True)
        return cls(jnp.concatenate([2 * v, 1 - square], -1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """The rotations about one to three axes in turn.

        Args:
          seq: the axes: "x", "y" and "z" for axes that stay, or "X", "Y" and "Z" for those that turn with the body.
          angles: an angle for each axis along the last axis, or a number for one.
          degrees: whether angles are in degrees.
        """
        axes, intrinsic = _axes_of("from_euler", seq, (1, 2, 3))
        angles = jnp.atleast_1d(jnp.asarray(*promote_inexact(angles)))
        if angles.shape[-1] != len(axes):
            types = angles.aval.str_short()
            raise ValueError(
                f"Rotation.from_euler: {seq!r} takes {len(axes)} angles along the last axis, and got {types}."
            )
        half = (jnp.deg2rad(angles) if degrees else angles).astype(angles.dtype) / 2
        quat = None
        for i, axis in enumerate(axes):
            sine, zero = jnp.sin(half[..., i]), jnp.zeros_like(half[..., i])
            turn = jnp.stack([*(sine if j == axis else zero for j in range(3)), jnp.cos(half[..., i])], -1)
            quat = turn if quat is None else _composed(quat, turn) if intrinsic else _composed(turn, quat)
        return cls(quat)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that changes nothing, or so many of them."""
        one = np.array([0, 0, 0, 1])
        return cls(jnp.asarray(one if num is None else np.tile(one, (num, 1)), dtype))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A uniform random rotation, or so many of them, from a key."""
        return cls(_normalized(rnd.normal(random_key, (4,) if num is None else (num, 4))))

    # -- As an array

    @property
    def single(self) -> bool:
        """Whether this is one rotation, and not an array of them."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TypeError("Rotation: this is a single rotation, which has no elements.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Rotation: this is a single rotation, which has no length.")
        return self.quat.shape[0]

    # -- As other numbers

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """The quaternions [..., 4].

        Args:
          canonical: whether to choose, of q and -q, the one whose scalar part is positive, or, where that is 0, whose
            first other element is.
          scalar_first: whether the scalar part comes first.
        """
        quat = self.quat
        if canonical:
            order = [3, 0, 1, 2]
            sign = jnp.sign(quat[..., order])
            first = jnp.argmax(sign != 0, -1)[..., None]
            quat = jnp.where(take_along_axis(sign, first, -1) < 0, -quat, quat)
        return jnp.roll(quat, 1, -1) if scalar_first else quat

    def as_matrix(self) -> Any:
        """The orthogonal matrices [..., 3, 3]."""
        x, y, z, w = _elements(self.quat)
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
        ]
        return jnp.stack([jnp.stack(row, -1) for row in rows], -2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """The axes times the angles, [..., 3]; angles are at most a half turn."""
        quat = self.as_quat(canonical=True)
        v, w = quat[..., :3], quat[..., 3:]
        square = jnp.sum(v * v, -1, keepdims=True)
        near = square < _NEAR * w * w
        size, ratio = jnp.sqrt(jnp.where(near, 1, square)), jnp.where(near, square / jnp.where(near, w, 1) ** 2, 0)
        series = 2 * (1 - ratio / 3 + ratio**2 / 5) / jnp.where(near, w, 1)
        out = v * jnp.where(near, series, 2 * jnp.arctan2(size, w) / size)
        return jnp.rad2deg(out) if degrees else out

    def as_mrp(self) -> Any:
        """The modified Rodrigues parameters [..., 3]: the axes times tan(angle / 4)."""
        quat = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """The angles about three axes in turn, [..., 3].

        Where only the sum or the difference of the outer two is determined the last one is 0. By E. Bernardes and
        S. Viollet, Quaternion to Euler angles conversion, 2022.

        Args:
          seq: the axes, as for `from_euler`.
          degrees: whether angles are in degrees.
        """
        axes, intrinsic = _axes_of("as_euler", seq, (3,))
        i, j, k = axes[::-1] if intrinsic else axes
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = _elements(self.quat)
        if symmetric:
            a, b, c, d = q[3], q[i], q[j], q[k] * sign
        else:
            a, b, c, d = q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i]
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        none, half_turn = jnp.abs(middle) <= 1e-7, jnp.abs(middle - math.pi) <= 1e-7
        one, other = half_sum - half_difference, half_sum + half_difference
        other = other if symmetric else other * sign
        alone = jnp.where(none, 2 * half_sum, 2 * half_difference * (1 if intrinsic else -1))
        alone = alone * sign if intrinsic and not symmetric else alone
        degenerate = none | half_turn
        first, last = (other, one) if intrinsic else (one, other)
        first, last = jnp.where(degenerate, alone, first), jnp.where(degenerate, 0, last)
        angles = jnp.stack([first, middle if symmetric else middle - math.pi / 2, last], -1)
        turns = jnp.where(angles < -math.pi, 1, jnp.where(angles > math.pi, -1, 0))
        angles = angles + turns * (2 * math.pi)
        return jnp.rad2deg(angles) if degrees else angles

    # -- Operations

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]  # tuples are repeated
        """First the other rotation, then this one."""
        return Rotation(_normalized(_composed(self.quat, other.quat)))

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], -1))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Vectors [..., 3] rotated, or rotated back; leading axes broadcast with those of the rotations."""
        vectors = _vectors("apply", vectors, 3)
        matrix = (self.inv() if inverse else self).as_matrix()
        return jnp.matmul(matrix, vectors[..., None], precision="highest")[..., 0]

    def magnitude(self) -> Any:
        """The angles, from 0 to pi."""
        return 2 * jnp.arctan2(jnp.sqrt(jnp.sum(self.quat[..., :3] ** 2, -1)), jnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation of the least sum of squared distances (F. Markley et al., Averaging quaternions, 2007).

        Args:
          weights: of the rotations, [n]; None for equal ones.
        """
        weights = jnp.ones(len(self)) if weights is None else jnp.asarray(weights)
        if weights.shape != (len(self),):
            raise ValueError(f"Rotation.mean: {len(self)} rotations have weights ({len(self)},), not {weights.shape}.")
        scaled = weights.astype(self.quat.dtype)[:, None] * self.quat
        return Rotation(eigh(jnp.matmul(scaled.T, self.quat, precision="highest"))[1][:, -1])


class Slerp(NamedTuple):
    """Spherical linear interpolation between rotations, made by `Slerp.init`.

    Attributes:
      times: when the rotations are reached, ascending [n].
      timedelta: the times from each one to the next [n - 1].
      rotations: the rotations but the last.
      rotvecs: the rotations from each one to the next, as vectors [n - 1, 3].

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.spatial.transform import Rotation, Slerp
    >>> turns = Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True)
    >>> Slerp.init(jnp.array([0.0, 1.0]), turns)(0.5).as_rotvec(degrees=True).round(2)
    Array([ 0.,  0., 45.], dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """The interpolation between two or more rotations, which are reached at ascending times [n]."""
        if not isinstance(rotations, Rotation):
            raise TypeError(f"Slerp.init: rotations are a Rotation, and were given as {type(rotations).__name__}.")
        if rotations.single or len(rotations) < 2:
            raise ValueError("Slerp.init: takes two rotations or more.")
        times = jnp.asarray(times, rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(
                f"Slerp.init: {len(rotations)} rotations have times ({len(rotations)},), not {times.shape}."
            )
        before = Rotation(rotations.quat[:-1])
        between = before.inv() * Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), before, between.as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at times, a number or a vector."""
        times = jnp.asarray(times, self.times.dtype)
        if times.ndim > 1:
            raise ValueError(f"Slerp: takes a number or a vector, and got {times.aval.str_short()}.")
        i = jnp.clip(jnp.searchsorted(self.times, times) - 1, 0, self.timedelta.size - 1)
        share = (times - self.times[i]) / self.timedelta[i]
        return Rotation(self.rotations.quat[i]) * Rotation.from_rotvec(self.rotvecs[i] * share[..., None])


def _vectors(name: str, x: Any, size: int) -> Any:
    x = jnp.asarray(*promote_inexact(x))
    if x.shape[-1:] != (size,):
        raise ValueError(f"Rotation.{name}: takes {size} elements along the last axis, and got {x.aval.str_short()}.")
    return x


def _elements(quat: Any) -> list[Any]:
    return [quat[..., i] for i in range(4)]


def _normalized(quat: Any) -> Any:
    return quat / jnp.sqrt(jnp.sum(quat * quat, -1, keepdims=True))


def _composed(p: Any, q: Any) -> Any:
    """The product of quaternions: first q, then p."""
    px, py, pz, pw = _elements(p)
    qx, qy, qz, qw = _elements(q)
    parts = [
        pw * qx + qw * px + py * qz - pz * qy, pw * qy + qw * py + pz * qx - px * qz,
        pw * qz + qw * pz + px * qy - py * qx, pw * qw - px * qx - py * qy - pz * qz,
    ]  # fmt: skip
    return jnp.stack(parts, -1)


def _axes_of(name: str, seq: str, lengths: tuple[int, ...]) -> tuple[list[int], bool]:
    """The axes as numbers, and whether they turn with the body."""
    several = " to ".join(str(n) for n in sorted({lengths[0], lengths[-1]}))
    if len(seq) not in lengths or not re.fullmatch("[xyz]+|[XYZ]+", seq) or re.search(r"(.)\1", seq):
        raise ValueError(
            f"Rotation.{name}: axes are {several} letters of 'xyz' or of 'XYZ', of which no two in a row are the same, "
            f"and {seq!r} was given."
        )
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()
