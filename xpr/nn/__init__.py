"""Functions for neural networks: activations, softmax and related functions, attention; initializers of weights."""

from xpr.nn import initializers as initializers
from xpr.nn.activations import *
from xpr.nn.attention import *
from xpr.nn.normalizing import *
from xpr.nn.scaled import *
