"""What the function that `vjp` returns is to do with cotangents: `f_vjp.with_refs`."""

from xpr.api.cotangent_refs import *
