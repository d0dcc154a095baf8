"""The language: abstract values, primitives, interpreters, jaxprs. It knows no numerics and no XLA."""

from xpr.core.avals import ShapedArray as ShapedArray
from xpr.core.avals import Zero as Zero
from xpr.core.avals import aval_of as aval_of
from xpr.core.check import check_jaxpr as check_jaxpr
from xpr.core.interpreter import Trace as Trace
from xpr.core.interpreter import Tracer as Tracer
from xpr.core.interpreter import context as context
from xpr.core.interpreter import current as current
from xpr.core.jaxpr import ClosedJaxpr as ClosedJaxpr
from xpr.core.jaxpr import DropVar as DropVar
from xpr.core.jaxpr import Jaxpr as Jaxpr
from xpr.core.jaxpr import JaxprEqn as JaxprEqn
from xpr.core.jaxpr import Literal as Literal
from xpr.core.jaxpr import Var as Var
from xpr.core.jaxpr import eval_jaxpr as eval_jaxpr
from xpr.core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from xpr.core.jaxpr import subjaxprs as subjaxprs
from xpr.core.jaxpr import unit as unit
from xpr.core.jaxpr import unitvar as unitvar
from xpr.core.primitive import Linear as Linear
from xpr.core.primitive import Primitive as Primitive
from xpr.core.primitive import Unsupported as Unsupported
