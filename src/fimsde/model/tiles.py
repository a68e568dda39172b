"""Products of matrix tiles held in vector registers, for the compiled attention.

A tile has 6 rows and 16 columns: on AVX2 its 12 accumulators, 2 columns and 1 broadcast number fill the 16 registers.
LLVM does not find this by itself in a loop over arrays, so the vectors are written down. Matrices are flat float32
arrays with a first element and a distance between rows.
"""

# mypy: disable-error-code="no-untyped-def"

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

ROWS = 6
WIDTH = 16  # columns
LANES = 8
LINE = 16  # numbers in a cache line
_PARTS = WIDTH // LANES
_INDEX = ir.IntType(64)
_INT = ir.IntType(32)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_FLOAT_ALIGNMENT = 4  # bytes; tiles start anywhere


@intrinsic
def score_tile(typing_context, a, a_first, a_step, b, b_first, b_step, c, c_first, c_step, depth, base, row, peaks):
    """c = a b - base, with one base per row; `peaks` keeps the largest entry of each row in each lane."""

    def generate(context, builder, signature, args):
        bases, largest = (_data(context, builder, signature, args, i) for i in (10, 12))
        tile = _Tile(context, builder, signature, args)
        for r in range(ROWS):
            one = builder.load(builder.gep(bases, [builder.add(args[11], _INDEX(r))]))
            tile.start(r, _broadcast(builder, builder.fneg(one)))
        tile.accumulate()
        tile.write(add=False)
        for r in range(ROWS):
            where = _vector_at(builder, largest, _INDEX(r * LANES))
            peak = builder.load(where, align=_FLOAT_ALIGNMENT)
            for value in tile.sums(r):
                peak = builder.select(builder.fcmp_ordered(">", value, peak), value, peak)
            builder.store(peak, where, align=_FLOAT_ALIGNMENT)
        return context.get_dummy_value()

    return types.void(a, a_first, a_step, b, b_first, b_step, c, c_first, c_step, depth, base, row, peaks), generate


@intrinsic
def add_tile(typing_context, a, a_first, a_step, b, b_first, b_step, c, c_first, c_step, depth):
    """c += a b; the product is summed from zero first, which keeps rounding errors small over many blocks."""

    def generate(context, builder, signature, args):
        tile = _Tile(context, builder, signature, args)
        for r in range(ROWS):
            tile.start(r, _VECTOR(None))
        tile.accumulate()
        tile.write(add=True)
        return context.get_dummy_value()

    return types.void(a, a_first, a_step, b, b_first, b_step, c, c_first, c_step, depth), generate


@intrinsic
def prefetch(typing_context, array, position):
    """Ask for the cache line of one element ahead of its use."""

    def generate(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        pointer = builder.bitcast(builder.gep(_data(context, builder, signature, args, 0), [args[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [pointer, _INT(0), _INT(2), _INT(1)])  # to read, into the second-level cache, data
        return context.get_dummy_value()

    return types.void(array, position), generate


class _Tile:
    """Emits a product of `depth` terms whose sums stay in registers."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder, self.args = builder, args
        self.a, self.b, self.c = (_data(context, builder, signature, args, i) for i in (0, 3, 6))
        self.slots = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(_PARTS)] for _ in range(ROWS)]

    def start(self, row: int, value: Any) -> None:
        for slot in self.slots[row]:
            self.builder.store(value, slot)

    def accumulate(self) -> None:
        builder = self.builder
        _, a_first, a_step, _, b_first, b_step = self.args[:6]
        rows = [builder.add(a_first, builder.mul(a_step, _INDEX(r))) for r in range(ROWS)]
        with cgutils.for_range(builder, self.args[9]) as loop:
            first = builder.add(b_first, builder.mul(b_step, loop.index))
            columns = [builder.load(at, align=_FLOAT_ALIGNMENT) for at in self._parts(self.b, first)]
            for r in range(ROWS):
                factor = _broadcast(builder, builder.load(builder.gep(self.a, [builder.add(rows[r], loop.index)])))
                for slot, column in zip(self.slots[r], columns, strict=True):
                    product = builder.fmul(factor, column, flags=("contract",))
                    builder.store(builder.fadd(builder.load(slot), product, flags=("contract",)), slot)

    def sums(self, row: int) -> list[Any]:
        return [self.builder.load(slot) for slot in self.slots[row]]

    def write(self, *, add: bool) -> None:
        builder, (c_first, c_step) = self.builder, self.args[7:9]
        for r in range(ROWS):
            parts = self._parts(self.c, builder.add(c_first, builder.mul(c_step, _INDEX(r))))
            for at, value in zip(parts, self.sums(r), strict=True):
                total = builder.fadd(value, builder.load(at, align=_FLOAT_ALIGNMENT)) if add else value
                builder.store(total, at, align=_FLOAT_ALIGNMENT)

    def _parts(self, data: Any, first: Any) -> list[Any]:
        positions = [self.builder.add(first, _INDEX(part * LANES)) for part in range(_PARTS)]
        return [_vector_at(self.builder, data, position) for position in positions]


def _data(context: Any, builder: Any, signature: Any, args: Any, i: int) -> Any:
    return context.make_array(signature.args[i])(context, builder, args[i]).data


def _vector_at(builder: Any, data: Any, position: Any) -> Any:
    return builder.bitcast(builder.gep(data, [position]), _VECTOR.as_pointer())


def _broadcast(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    single = builder.insert_element(undefined, number, _INT(0))
    return builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES))
