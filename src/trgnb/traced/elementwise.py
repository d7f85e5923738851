"""Ops that act entry by entry, on tensors of one shape and dtype; broadcasting and promotion come before them."""

import numpy as np

from trgnb.traced.extents import known, same, shown
from trgnb.traced.graph import DTYPES, Op, Tensor, Traced, apply, as_array
from trgnb.traced.shapes import broadcast_to


def _numbers(name, *inputs):
    """Infer the output of an op on numbers: the shape and dtype of its inputs."""
    x = inputs[0]
    if x.dtype == bool:
        raise TypeError(f"{name} takes numbers, got bool{shown(x.shape)}; where(condition, 1.0, 0.0) makes numbers")
    return [(x.shape, x.dtype)]


def _inexact(name, x):
    if x.dtype.kind not in "fc":
        raise TypeError(f"{name} takes floating-point numbers, got {x.dtype}{shown(x.shape)}; convert(x, 'float64') makes them")
    return [(x.shape, x.dtype)]


def _op(name, kernel, infer=_numbers, **rules):
    return Op(name, lambda *inputs, **_: infer(name, *inputs), kernel, **rules)


def _sum(dx, dy, minus=False):
    """dx + dy or dx - dy, where None is zero."""
    if dy is None:
        return dx
    dy = -dy if minus else dy
    return dy if dx is None else dx + dy


ADD = _op("add", np.add, vjp=lambda node, ct, i: ct, jvp=lambda node, d: _sum(*d))
SUB = _op("sub", np.subtract, vjp=lambda node, ct, i: -ct if i else ct, jvp=lambda node, d: _sum(*d, minus=True))
MUL = _op("mul", np.multiply, vjp=lambda node, ct, i: ct * node.inputs[1 - i], multilinear=True)
NEG = _op("neg", np.negative, vjp=lambda node, ct, i: -ct, multilinear=True)


def _div_vjp(node, ct, i):
    y = node.inputs[1]
    return -(ct * node.outputs[0]) / y if i else ct / y


def _div_jvp(node, tangents):
    dx, dy = tangents
    return _sum(dx, None if dy is None else node.outputs[0] * dy, minus=True) / node.inputs[1]


DIV = _op("div", np.divide, lambda name, x, y: _inexact(name, x), vjp=_div_vjp, jvp=_div_jvp)


def _scaled(slope):
    """Rules of a function of one number from its derivative: slope(change, x, y) = change * f'(x), with y = f(x)."""
    return {
        "vjp": lambda node, ct, i: slope(ct, node.inputs[0], node.outputs[0]),
        "jvp": lambda node, d: slope(d[0], node.inputs[0], node.outputs[0]),
    }


SQRT = _op("sqrt", np.sqrt, _inexact, **_scaled(lambda change, x, y: change / (y * 2.0)))
LOG = _op("log", np.log, _inexact, **_scaled(lambda change, x, y: change / x))
EXP = _op("exp", np.exp, _inexact, **_scaled(lambda change, x, y: change * y))
COSH = _op("cosh", np.cosh, _inexact, **_scaled(lambda change, x, y: change * sinh(x)))
SINH = _op("sinh", np.sinh, _inexact, **_scaled(lambda change, x, y: change * cosh(x)))


def _real_numbers(name, x):
    if x.dtype.kind == "c":
        raise TypeError(f"{name} of complex numbers has no derivative; sqrt(real(x * conj(x))) says what is meant")
    return _numbers(name, x)


def _signed(change, x, y):
    return where(x > 0.0, change, where(x < 0.0, -change, 0.0))


ABS = _op("abs", np.abs, _real_numbers, **_scaled(_signed))


def _lorentz_kernel(x, eps2):
    return x / (x * x + eps2)


# The derivative of 1/x, not of x / (x^2 + eps2): that one is 1 / eps2 at x = 0, where it would multiply the
# rounding errors of a second derivative.
LORENTZ = _op("lorentz", _lorentz_kernel, _inexact, **_scaled(lambda change, x, y: -(change * y * y)))

CONJ = _op("conj", np.conj, vjp=lambda node, ct, i: conj(ct), multilinear=True)


def _halved_dtype(name, x):
    return [(x.shape, np.empty(0, x.dtype).real.dtype)]


# df = Re sum(ct * dx), JAX's convention: the cotangent of a real part is real.
REAL = _op("real", np.real, _halved_dtype, vjp=lambda node, ct, i: convert(ct, node.inputs[0].dtype), multilinear=True)


def _convert_infer(x, dtype):
    if np.dtype(dtype) not in DTYPES:
        raise TypeError(f"convert makes {', '.join(map(str, DTYPES))}, got {dtype!r}")
    if x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise TypeError(f"convert from {x.dtype} to {dtype} would lose the imaginary part in silence; take real(x)")
    return [(x.shape, np.dtype(dtype))]


def _convert_vjp(node, ct, i):
    x = node.inputs[0]
    return convert(real(ct) if x.dtype.kind != "c" else ct, x.dtype)


CONVERT = Op(
    "convert", _convert_infer, lambda x, dtype: np.asarray(x, dtype=np.dtype(dtype)), vjp=_convert_vjp, multilinear=True
)  # fmt: skip

_COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}


def _compare_infer(x, y, direction):
    if x.dtype.kind == "c" and direction not in ("==", "!="):
        raise TypeError(f"complex numbers have no order: {direction} takes real numbers, got {x.dtype}{shown(x.shape)}")
    return [(x.shape, np.dtype(bool))]


COMPARE = Op(
    "compare", _compare_infer, lambda x, y, direction: _COMPARE[direction](x, y), differentiable=False
)  # fmt: skip


def _where_infer(condition, x, y):
    if condition.dtype != bool:
        raise TypeError(f"where takes a bool condition, got {condition.dtype}{shown(condition.shape)}; compare it first")
    return [(x.shape, x.dtype)]


def _where_vjp(node, ct, i):
    condition = node.inputs[0]
    return where(condition, ct, 0.0) if i == 1 else where(condition, 0.0, ct)


def _where_jvp(node, tangents):
    _, dx, dy = tangents
    return where(node.inputs[0], 0.0 if dx is None else dx, 0.0 if dy is None else dy)


WHERE = Op("where", _where_infer, np.where, vjp=_where_vjp, jvp=_where_jvp)


# --- functions ---------------------------------------------------------------------------------------------


def to_common_dtype(*values, kind=None):
    """The values as tensors of one dtype; a Python number takes the dtype of the others if it can."""
    given = [x if isinstance(x, Tensor | bool | int | float | complex) else as_array(x) for x in values]
    dtype = np.result_type(*(x.dtype if hasattr(x, "dtype") else x for x in given))
    kind = kind or next((type(x) for x in given if isinstance(x, Tensor)), Traced)
    return [convert(x, dtype) if isinstance(x, Tensor) else kind.constant(as_array(x).astype(dtype, copy=False)) for x in given]


def _common(name, *values):
    return to_common_shape(name, *to_common_dtype(*values))


def to_common_shape(name, *tensors):
    """Tensors broadcast against each other, aligned at their last axes."""
    if all(x.shape == tensors[0].shape for x in tensors):
        return tensors
    shape = []
    for axis in range(-max(x.ndim for x in tensors), 0):
        extents = [x.shape[axis] for x in tensors if x.ndim >= -axis]
        wide = next((e for e in extents if known(e) != 1), extents[0])
        if not all(known(e) == 1 or same(e, wide) for e in extents):
            raise ValueError(
                f"{name} got shapes {' and '.join(shown(x.shape) for x in tensors)}: along axis {axis} the extents must be "
                "equal or 1" + ("" if all(known(e) is not None for e in extents) else ", and known to be so when recorded")
            )
        shape.append(wide)
    return tuple(broadcast_to(x, shape) for x in tensors)


def add(x, y):
    """x + y, broadcast.

    >>> traced.add(traced.eager([1.0, 2.0]), 3.0)
    Eager(float64[2], [4. 5.])
    """
    return apply(ADD, *_common("add", x, y))


def sub(x, y):
    """x - y, broadcast.

    >>> traced.sub(traced.eager([1.0, 2.0]), 3.0)
    Eager(float64[2], [-2. -1.])
    """
    return apply(SUB, *_common("sub", x, y))


def mul(x, y):
    """x * y, broadcast.

    >>> traced.mul(traced.eager([1.0, 2.0]), 3.0)
    Eager(float64[2], [3. 6.])
    """
    return apply(MUL, *_common("mul", x, y))


def div(x, y):
    """x / y, broadcast, of floating-point numbers.

    >>> traced.div(traced.eager([1.0, 2.0]), 4.0)
    Eager(float64[2], [0.25 0.5 ])
    """
    return apply(DIV, *_common("div", x, y))


def neg(x):
    """-x.

    >>> traced.neg(traced.eager([1.0, -2.0]))
    Eager(float64[2], [-1.  2.])
    """
    return apply(NEG, x)


def sqrt(x):
    """Square root, entry by entry; its derivative is infinite at zero.

    >>> traced.sqrt(traced.eager([4.0, 9.0]))
    Eager(float64[2], [2. 3.])
    """
    return apply(SQRT, x)


def log(x):
    """Natural logarithm, entry by entry.

    >>> traced.log(traced.eager([1.0]))
    Eager(float64[1], [0.])
    """
    return apply(LOG, x)


def exp(x):
    """Exponential, entry by entry.

    >>> traced.exp(traced.eager([0.0]))
    Eager(float64[1], [1.])
    """
    return apply(EXP, x)


def cosh(x):
    """Hyperbolic cosine, entry by entry.

    >>> traced.cosh(traced.eager([0.0]))
    Eager(float64[1], [1.])
    """
    return apply(COSH, x)


def sinh(x):
    """Hyperbolic sine, entry by entry.

    >>> traced.sinh(traced.eager([0.0]))
    Eager(float64[1], [0.])
    """
    return apply(SINH, x)


def absolute(x):
    """Absolute value of real numbers; its derivative at zero is taken as zero.

    >>> traced.absolute(traced.eager([-1.0, 2.0]))
    Eager(float64[2], [1. 2.])
    """
    return apply(ABS, x)


def lorentz(x, eps2):
    """x / (x^2 + eps2), the broadened 1/x, with the derivative of 1/x (Liao et al., Phys. Rev. X 9, 031041 (2019)).

    >>> traced.lorentz(traced.eager([0.0, 2.0]), eps2=1e-24)
    Eager(float64[2], [0.  0.5])
    """
    return apply(LORENTZ, x, eps2=float(eps2))


def conj(x):
    """Complex conjugate; real numbers pass.

    >>> traced.conj(traced.eager([1 + 2j]))
    Eager(complex128[1], [1.-2.j])
    """
    return apply(CONJ, x) if x.dtype.kind == "c" else x


def real(x):
    """Real part; real numbers pass.

    >>> traced.real(traced.eager([1 + 2j]))
    Eager(float64[1], [1.])
    """
    return apply(REAL, x) if x.dtype.kind == "c" else x


def convert(x, dtype):
    """x in another dtype; never from complex to real.

    >>> traced.convert(traced.eager([1.0]), "complex64")
    Eager(complex64[1], [1.+0.j])
    """
    return x if x.dtype == np.dtype(dtype) else apply(CONVERT, x, dtype=np.dtype(dtype).name)


def compare(x, y, direction):
    """A bool tensor, x direction y, with direction one of < <= > >= == != ; broadcast.

    >>> traced.compare(traced.eager([1.0, 2.0]), 1.5, "<")
    Eager(bool[2], [ True False])
    """
    if direction not in _COMPARE:
        raise ValueError(f"direction must be one of {' '.join(_COMPARE)}, got {direction!r}")
    return apply(COMPARE, *_common("compare", x, y), direction=direction)


def where(condition, x, y):
    """x where the condition holds, else y; broadcast.  Both x and y are differentiated.

    >>> traced.where(np.array([True, False]), traced.eager([1.0, 2.0]), 0.0)
    Eager(float64[2], [1. 0.])
    """
    kind = next((type(v) for v in (condition, x, y) if isinstance(v, Tensor)), Traced)
    x, y = to_common_dtype(x, y, kind=kind)
    condition = condition if isinstance(condition, Tensor) else kind.constant(as_array(condition))
    return apply(WHERE, *to_common_shape("where", condition, x, y))
