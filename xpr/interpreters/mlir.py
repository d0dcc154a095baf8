"""Lowering rules in JAX's form: `register_lowering`, `lower_fun`, and rules that build MLIR operations.

A rule `(ctx, *operands, **params)` builds operations with jaxlib's MLIR bindings where it is called. Here it is called
inside a function of a module of its own, whose text then becomes a function of the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from xpr.backend.callbacks import TARGETS, Callback
from xpr.backend.mlir_bindings import bindings, context
from xpr.backend.mlir_text import TOKEN, dense, tensor_type
from xpr.backend.stablehlo import Builder
from xpr.backend.stablehlo import Value as _TextValue
from xpr.backend.stablehlo_module import Module
from xpr.compile.lower import constants, lower_eqns
from xpr.core.avals import ShapedArray, aval_of
from xpr.core.effects import lowerable_effects, ordered_effects
from xpr.core.primitive import Primitive
from xpr.interpreters.tables import listed
from xpr.transforms.stage import stage

__all__ = [
    "LoweringRuleContext", "ModuleContext", "TokenSet", "aval_to_ir_type", "aval_to_ir_types", "dense_int_array",
    "dense_int_elements", "dtype_to_ir_type", "emit_python_callback", "flatten_ir_values", "i32_attr", "i64_attr", "ir",
    "ir_constant", "ir_constants", "lower_fun", "lowerable_effects", "make_ir_context", "register_lowering",
    "token_type",
]  # fmt: skip


ir = bindings()


class ModuleContext:
    """The module that a lowering rule writes to."""

    def __init__(self, module: Module, ir_module: Any):
        self.program, self.module = module, ir_module
        self.platforms = (module.platform,)
        self.context = ir_module.context

    def add_keepalive(self, value: Any) -> None:
        """Keeps an object alive with the program, as callbacks are."""
        self.program.shared.setdefault("kept alive", []).append(value)


class TokenSet:
    """The tokens of ordered effects, by effect.

    >>> from xpr.interpreters.mlir import TokenSet
    >>> tokens = TokenSet({"first": 1, "second": 2})
    >>> tokens.update_tokens(TokenSet({"first": 3})).items()
    (('first', 3), ('second', 2))
    """

    def __init__(self, tokens: Mapping[Any, Any] = MappingProxyType({})):
        self._tokens = dict(tokens)

    @classmethod
    def create(cls, effects: Iterable[Any]) -> TokenSet:
        """A new token for each effect, made by an operation."""
        return cls({each: _new_token() for each in effects})

    def __len__(self) -> int:
        return len(self._tokens)

    def __repr__(self) -> str:
        return f"TokenSet({self._tokens})"

    def get(self, effect: Any) -> Any:
        """The token of an effect; KeyError if it has none."""
        return self._tokens[effect]

    def items(self) -> tuple[tuple[Any, Any], ...]:
        """Pairs of an effect and its token."""
        return tuple(self._tokens.items())

    def effects(self) -> set[Any]:
        """The effects."""
        return set(self._tokens)

    def subset(self, effects: Iterable[Any]) -> TokenSet:
        """The tokens of some of the effects."""
        return TokenSet({each: self._tokens[each] for each in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """The same effects with other tokens for some; itself if there are none of these."""
        return TokenSet({**self._tokens, **tokens._tokens}) if len(tokens) else self


def _new_token(*tokens: Any) -> Any:
    """A token that waits for others; the only one of these itself."""
    if len(tokens) == 1:
        return tokens[0]
    return ir.Operation.create("stablehlo.after_all", results=[aval_to_ir_type(TOKEN)], operands=list(tokens)).result


class LoweringRuleContext:
    """The context of a lowering rule: the types of operands and results, the module, and the tokens of ordered effects.

    A rule of a primitive with ordered effects takes their tokens from `tokens_in`, and gives those that later effects
    wait for to `set_tokens_out`.
    """

    def __init__(
        self, module_context: ModuleContext, primitive: Primitive | None, avals_in: Sequence[ShapedArray],
        avals_out: Sequence[ShapedArray], tokens_in: TokenSet | None = None, tokens_out: TokenSet | None = None,
    ):  # fmt: skip
        self.module_context, self.primitive = module_context, primitive
        self.avals_in, self.avals_out = list(avals_in), list(avals_out)
        self.tokens_in, self.tokens_out = TokenSet() if tokens_in is None else tokens_in, tokens_out
        self.axis_size_env = None

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Says which tokens later effects wait for."""
        self.tokens_out = tokens_out

    def replace(self, **changes: Any) -> LoweringRuleContext:
        """A copy with some attributes changed."""
        about = {
            name: changes.get(name, getattr(self, name))
            for name in ("module_context", "primitive", "avals_in", "avals_out", "tokens_in", "tokens_out")
        }
        return LoweringRuleContext(**about)


def register_lowering(
    prim: Primitive, rule: Callable[..., Any], platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> None:
    """Registers a lowering rule of a primitive, on all platforms or on one.

    Args:
      rule: `(ctx, *operands, **params)` returns MLIR values; or the result of `lower_fun`.
      platform: "cpu", "cuda" or "gpu" ...; None for all others.

    Raises:
      NotImplementedError: there is no such platform.
    """
    if platform not in (None, *_PLATFORMS):
        raise NotImplementedError(
            f"register_lowering: a lowering rule of {prim} for an unknown platform {platform}; known are "
            f"{', '.join(_PLATFORMS)}."
        )
    table = _RULES.setdefault(prim, {})
    table["cuda" if platform == "gpu" else platform] = rule
    if list(table) == [None] and isinstance(rule, _Lowered):
        prim.lower_as = lambda *xs, **params: listed(prim, rule.function(*xs, **params))
        return

    def lower(
        builder: Builder, operands: list[_TextValue], avals: list[ShapedArray], **params: Any
    ) -> list[_TextValue]:
        chosen = table.get(builder.platform, table.get(None))
        if chosen is None:
            raise NotImplementedError(
                f"{prim} has no lowering rule for {builder.platform}, only for {', '.join(map(str, table))}."
            )
        return _written(builder, chosen, prim, operands, avals, params)

    prim.lower = lower


_RULES: dict[Primitive, dict[str | None, Any]] = {}
_PLATFORMS = ("cpu", "cuda", "gpu", "rocm", "oneapi", "tpu")


def _written(
    builder: Builder, rule: Any, primitive: Primitive, operands: list[_TextValue], avals: list[ShapedArray], params: Any
) -> list[_TextValue]:
    """A call of a function whose body the rule builds.

    Programs have one token for all ordered effects. With these the function takes it as its first argument, and returns
    it as its first result.
    """
    name = builder.module.unique_name(f"{re.sub(r'[^a-zA-Z0-9_]', '_', primitive.name)}_lowered")
    in_avals = [x.aval for x in operands]
    ordered = _ordered_effects(builder, primitive, in_avals, params)
    if ordered:
        operands = [builder.take_token(), *operands]
    result_avals: list[Any] = [TOKEN] * bool(ordered) + avals
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            types = ir.FunctionType.get(
                [aval_to_ir_type(x.aval) for x in operands], list(map(aval_to_ir_type, result_avals))
            )
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get(name),
                    "function_type": ir.TypeAttr.get(types),
                    "sym_visibility": ir.StringAttr.get("private"),
                },
                regions=1,
            )
            block = function.regions[0].blocks.append(*types.inputs)
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            tokens = TokenSet(dict.fromkeys(ordered, arguments.pop(0)) if ordered else {})
            ctx = LoweringRuleContext(ModuleContext(builder.module, module), primitive, in_avals, avals, tokens)
            outs = rule(ctx, *arguments, **params)
            results = flatten_ir_values([outs] if isinstance(outs, ir.Value) else outs)
            if ordered:
                results.insert(0, _token_out(ctx))
            ir.Operation.create("func.return", operands=results)
        for operation in module.body.operations:
            text = operation.get_asm(print_generic_op_form=True, use_local_scope=True)
            builder.module.functions.append(text)
    builder.module.work.add_foreign()
    if not ordered:
        return builder.call(name, operands, avals)
    builder.token, *values = builder.call(name, operands, result_avals)
    return values


def _ordered_effects(
    builder: Builder, primitive: Primitive, in_avals: Sequence[ShapedArray], params: dict[str, Any]
) -> list[Any]:
    """The ordered effects of an operation.

    Raises:
      ValueError: it has some, and the program runs on several devices.
    """
    effects = () if primitive.effects is None else primitive.effects(in_avals, **params)
    ordered = ordered_effects.filter_in(effects)
    if ordered and builder.token_type is not TOKEN:
        raise ValueError(
            f"The following ordered effects are not supported for more than 1 device: {ordered}. They are those of "
            f"{primitive}. Run the program on one device, or leave their classes out of xpr.core.ordered_effects."
        )
    return ordered


def _token_out(ctx: LoweringRuleContext) -> Any:
    """The token after all effects of a rule that has been run.

    Raises:
      ValueError: the rule has not given the tokens of all its effects, or has given others.
    """
    if ctx.tokens_out is None:
        raise ValueError(
            f"Lowering rule for `{ctx.primitive}` needs to set `tokens_out` because it has effects: "
            f"{sorted(map(repr, ctx.tokens_in.effects()))}. Call ctx.set_tokens_out(...), with ctx.tokens_in where it "
            "does nothing that others have to wait for."
        )
    if ctx.tokens_out.effects() != ctx.tokens_in.effects():
        raise ValueError(
            f"Lowering rule for `{ctx.primitive}` returns incorrect set of output tokens. Expected: "
            f"{sorted(map(repr, ctx.tokens_in.effects()))} vs. actual: {sorted(map(repr, ctx.tokens_out.effects()))}. "
            "Give ctx.set_tokens_out(ctx.tokens_in.update_tokens(...)) the new ones."
        )
    return _new_token(*dict.fromkeys(token for _, token in ctx.tokens_out.items()))


class _Lowered:
    """A traceable function as a lowering rule."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, ctx: LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        """Writes the function inside a rule that builds operations."""
        program = ctx.module_context.program
        closed = stage(lambda *xs: _as_list(self.function(*xs, **params)), ctx.avals_in)
        name = program.unique_name("lowered_function")

        def body(inner: Builder, arguments: list[_TextValue]) -> list[_TextValue]:
            return lower_eqns(inner, closed.jaxpr, [*constants(inner, closed), *arguments])

        program.function(name, closed.in_avals, body, public=True)
        program.functions[-1] = program.functions[-1].replace("func.func public", "func.func private", 1)
        call = ir.Operation.create(
            "func.call",
            results=[aval_to_ir_type(a) for a in closed.out_avals],
            operands=list(operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
        )
        return list(call.results)


def _as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, list | tuple) else [out]


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Callable[..., Any]:
    """A lowering rule from a traceable function `(*arrays, **params)`, which returns a list if `multiple_results`."""
    return _Lowered(fun)


# -- MLIR's types, attributes and constants


def make_ir_context() -> Any:
    """A context of MLIR's bindings that knows XLA's dialects."""
    return context()


def aval_to_ir_type(aval: ShapedArray) -> Any:
    """The tensor type of an array."""
    return ir.Type.parse(tensor_type(aval))


def token_type() -> Any:
    """The type of tokens."""
    return aval_to_ir_type(TOKEN)


def aval_to_ir_types(aval: ShapedArray) -> tuple[Any, ...]:
    """The tensor types that hold an array: one."""
    return (aval_to_ir_type(aval),)


def dtype_to_ir_type(dtype: Any) -> Any:
    """The element type of a dtype."""
    return ir.RankedTensorType(aval_to_ir_type(ShapedArray((), np.dtype(dtype)))).element_type


def flatten_ir_values(values: Any) -> list[Any]:
    """Values in a list, lists among them flattened."""
    flat: list[Any] = []
    for x in values:
        flat.extend(x if isinstance(x, list | tuple) else [x])
    return flat


def ir_constant(value: Any, *, canonicalize_types: bool = True) -> Any:
    """A constant operation of an array or number."""
    aval = aval_of(value)
    text = dense(np.asarray(value).astype(aval.dtype)[()], aval.dtype)
    operation = ir.Operation.create(
        "stablehlo.constant",
        results=[aval_to_ir_type(aval)],
        attributes={"value": ir.Attribute.parse(f"{text} : {tensor_type(aval)}")},
    )
    return operation.result


def ir_constants(value: Any) -> tuple[Any, ...]:
    """The constant operations of an array: one."""
    return (ir_constant(value),)


def dense_int_array(values: Sequence[int]) -> Any:
    """An attribute `array<i64: ...>`."""
    return ir.DenseI64ArrayAttr.get(list(map(int, values)))


def dense_int_elements(values: Any) -> Any:
    """An attribute `dense<...> : tensor<nxi64>`."""
    return ir.DenseIntElementsAttr.get(np.asarray(values, np.int64))


def i32_attr(value: int) -> Any:
    """An attribute of a 32-bit integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)


def i64_attr(value: int) -> Any:
    """An attribute of a 64-bit integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Any],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[ShapedArray],
    result_avals: Sequence[ShapedArray],
    *,
    has_side_effect: bool = False,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Any], Any, Any]:
    """A call of a Python function on the host, which takes and returns NumPy arrays.

    Returns:
      The results, the next token where one is given and None elsewhere, and an object that has to be kept alive.
    """
    program = ctx.module_context.program
    number = len(program.callbacks)
    program.callbacks.append(Callback(callback, token is not None, result_avals, program.platform))
    program.calls_expected = True  # no equation says that it calls Python, nor whether in a branch
    operation = ir.Operation.create(
        "stablehlo.custom_call",
        results=[*([] if token is None else [token.type]), *map(aval_to_ir_type, result_avals)],
        operands=[*([] if token is None else [token]), *operands],
        attributes={
            "call_target_name": ir.StringAttr.get(TARGETS[program.platform]),
            "api_version": i32_attr(4),
            "has_side_effect": ir.BoolAttr.get(has_side_effect),
            "backend_config": ir.DictAttr.get({"index": ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), number)}),
        },
    )
    results = list(operation.results)
    return (results, None, callback) if token is None else (results[1:], results[0], callback)
