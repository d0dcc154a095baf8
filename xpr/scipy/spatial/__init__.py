"""Geometry: rotations in three dimensions, in `transform`."""

from xpr.scipy.spatial import transform

__all__ = ["transform"]
