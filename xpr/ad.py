"""What the function of cotangents that `vjp` returns does with them: `f_vjp.with_refs`."""

from xpr.api.cotangent_refs import *
