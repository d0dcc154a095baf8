"""Clusters of points: vector quantization, in `vq`."""

from xpr.scipy.cluster import vq

__all__ = ["vq"]
