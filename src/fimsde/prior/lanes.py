"""Thirty-two paths in one value: a numba type with `+`, `*` and a clipped square root.

LLVM turns loops over long arrays into vector instructions, but not loops over the dozen paths of one equation: the
run-time tests it needs cost more than the work. Writing the vector down removes the tests, and `euler_step` of
`fimsde.simulate` compiles for 32 paths as it stands. Every operation is a single IEEE 754 operation on each lane, so
the width never changes a result.
"""

import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 32  # as many as the uint32 of `lanes_beyond` has bits; two to eight registers on today's processors
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
_FLOAT_ALIGNMENT = 4  # bytes; positions are arbitrary, so no more can be promised


class LanesType(types.Type):
    """The numba type of 32 float32 numbers that are worked on together."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, frontend_type: Any) -> None:
        super().__init__(manager, frontend_type, _VECTOR)


@intrinsic
def load(typing_context, array, position):  # type: ignore[no-untyped-def]
    """The 32 numbers of a float32 array that start at `position`."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(_address(context, builder, signature, args), align=_FLOAT_ALIGNMENT)

    return LANES(array, types.uintp), generate


@intrinsic
def store(typing_context, array, position, lanes):  # type: ignore[no-untyped-def]
    """Write 32 numbers into a float32 array from `position` on."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[2], _address(context, builder, signature, args), align=_FLOAT_ALIGNMENT)
        return context.get_dummy_value()

    return types.void(array, types.uintp, LANES), generate


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), _VECTOR.as_pointer())


@intrinsic
def fma(typing_context, a, b, c):  # type: ignore[no-untyped-def]
    """a * b + c with a single rounding, for float32 numbers or lanes (a may be a number, wanted in every lane).

    Asked for by name, the fused operation is as well defined as any other; left to the compiler it would not be.
    """
    is_vector = isinstance(b, LanesType)
    kind = _VECTOR if is_vector else ir.FloatType()

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        factor = _in_every_lane(builder, args[0]) if is_vector and not isinstance(a, LanesType) else args[0]
        name = f"llvm.fma.v{WIDTH}f32" if is_vector else "llvm.fma.f32"
        function = builder.module.declare_intrinsic(name, fnty=ir.FunctionType(kind, [kind, kind, kind]))
        return builder.call(function, [factor, args[1], args[2]])

    result = LANES if is_vector else types.float32
    return result(a if is_vector else types.float32, result, result), generate


@intrinsic
def clipped_root(typing_context, g):  # type: ignore[no-untyped-def]
    """sqrt(max(0, g)); NaN stays NaN, so a lost path stays lost."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        root = builder.call(_vector_function(builder, "sqrt"), args)
        return builder.select(builder.fcmp_ordered("<=", args[0], zero), zero, root)

    return LANES(LANES), generate


@intrinsic
def lanes_beyond(typing_context, lanes, limit):  # type: ignore[no-untyped-def]
    """Bit l is set where lane l is not below `limit` in absolute value; NaN and infinity are beyond any limit."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        size = builder.call(_vector_function(builder, "fabs"), [args[0]])
        return builder.bitcast(builder.fcmp_unordered(">=", size, _in_every_lane(builder, args[1])), ir.IntType(WIDTH))

    return types.uint32(LANES, types.float32), generate


def _vector_function(builder: Any, name: str) -> Any:
    return builder.module.declare_intrinsic(f"llvm.{name}.v{WIDTH}f32", fnty=ir.FunctionType(_VECTOR, [_VECTOR]))


def _in_every_lane(builder: Any, number: Any) -> Any:
    index = ir.IntType(32)
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(index, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH))


def _elementwise(instruction: str) -> Any:
    @intrinsic
    def operation(typing_context, a, b):  # type: ignore[no-untyped-def]
        def widened(context, builder, argument_type, value):  # type: ignore[no-untyped-def]
            if isinstance(argument_type, LanesType):
                return value
            return _in_every_lane(builder, context.cast(builder, value, argument_type, types.float32))

        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            left, right = (widened(context, builder, t, v) for t, v in zip(signature.args, args, strict=True))
            return getattr(builder, instruction)(left, right)

        return LANES(a, b), generate

    return operation


_add, _multiply = _elementwise("fadd"), _elementwise("fmul")


def _has_lanes(a: Any, b: Any) -> bool:
    return isinstance(a, LanesType) or isinstance(b, LanesType)


@overload(operator.add)
def _lanes_add(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _add(a, b)) if _has_lanes(a, b) else None


@overload(operator.mul)
def _lanes_multiply(a, b):  # type: ignore[no-untyped-def]
    return (lambda a, b: _multiply(a, b)) if _has_lanes(a, b) else None
