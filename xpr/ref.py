"""Mutable arrays: `Ref`s, which functions may read and write under all transformations."""

from xpr.numpy.refs import *
