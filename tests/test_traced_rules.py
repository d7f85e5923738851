"""Every op of the traced library and its rules: against JAX, finite differences and closed forms.

A case is a function of an array namespace; it runs on ``trgnb.traced`` and on JAX.  Functions of decompositions do not
depend on the gauge.  The derivatives of a case are those of g = Re sum(w * f), with fixed weights w.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from tolerances import central

from trgnb import traced
from trgnb.svd import svd as jax_svd
from trgnb.traced.graph import Op, apply
from trgnb.traced.qr import LOWER
from trgnb.traced.dynamic import EXTEND


def random_array(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((*shape, 2)) @ np.array([1, 1j])
    return np.array(a if np.issubdtype(dtype, np.complexfloating) else a.real, dtype)


@jax.custom_jvp
def lorentz(x):
    return x / (x * x + 1e-2)


lorentz.defjvp(lambda x, dx: (lorentz(*x), -lorentz(*x) ** 2 * dx[0]))  # of 1/x: the docstring says so


def scatter(x, indices, axis, length):
    out = jnp.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
    return out.at[(slice(None),) * axis + (np.array(indices),)].add(x)


def pad(x, low, high, between):
    return lax.pad(x, jnp.zeros((), x.dtype), tuple(zip(low, high, between, strict=True)))


def truncate_extend(x, k, axis, length):
    k = type(x).constant(np.array(k))
    return apply(EXTEND, traced.dynamic_truncate(x, k, axis), k, axis=axis, length=traced.Const(length))


OURS = SimpleNamespace(
    **{name: getattr(traced, name) for name in traced.__all__}
    | {
        "lorentz": lambda x: traced.lorentz(x, 1e-2),
        "lower": lambda x: apply(LOWER, x),
        "truncate_extend": truncate_extend,
    }
)
JAX = SimpleNamespace(
    **{n: getattr(jnp, n) for n in ("sqrt", "log", "exp", "cosh", "sinh", "conj", "real", "where", "einsum", "sum")},
    absolute=jnp.abs,
    broadcast_to=jnp.broadcast_to,
    concatenate=jnp.concatenate,
    lorentz=lorentz,
    convert=lambda x, dtype: x.astype(dtype),
    slice_axis=lambda x, axis, start, limit, stride=1: lax.slice_in_dim(x, start, limit, stride, axis),
    pad=pad,
    take=lambda x, indices, axis: jnp.take(x, jnp.array(indices), axis),
    scatter=scatter,
    dynamic_truncate=lambda x, k, axis: lax.slice_in_dim(x, 0, k, axis=axis),
    truncate_extend=lambda x, k, axis, length: scatter(lax.slice_in_dim(x, 0, k, axis=axis), range(k), axis, length),
    lower=lambda x: jnp.tril(x, -1),
    solve=jnp.linalg.solve,
    svd=jax_svd,
    qr=jnp.linalg.qr,
    eigh=jnp.linalg.eigh,
    adjoint=lambda x: x.T.conj(),
)


def like(x, array):
    """An array in the precision of x: a double one makes the result double."""
    return np.asarray(array, np.empty(0, x.dtype).real.dtype)


def ladder(x):
    """1, 2, 3, ... in the shape of x."""
    shape = getattr(x, "concrete_shape", x.shape)
    return like(x, np.arange(1.0, 1.0 + np.prod(shape))).reshape(shape)


class Case(NamedTuple):
    function: Callable  # (namespace, *inputs) -> tensor
    shapes: tuple = ((3, 3),)
    kinds: str = "fc"  # real, complex


def _svd_function(xp, x):
    u, s, vh = xp.svd(x)
    return u * (s * s / (s + 1.0)) @ vh


def _svd_projectors(xp, x):
    """Of the first singular pair, left and right, by masks."""
    u, s, vh = xp.svd(x)
    mask = like(x, np.eye(min(x.shape))[0])
    return (u * mask @ xp.adjoint(u)) @ x + x @ (xp.adjoint(vh) * mask @ vh) * s[0]


def _phases(xp, x, a):
    """u diag(s) vh does not depend on the phases of u alone once both turn."""
    u, s, vh = xp.svd(x)
    return xp.einsum("ij,j,jk,kl->il", u, s * s, vh, a)


def _qr_left(xp, x):
    q, r = xp.qr(x)
    return q @ (r * ladder(r))


def _qr_projector(xp, x):
    q, _ = xp.qr(x)
    return q * ladder(q)[0] @ xp.adjoint(q)


def _qr_values(xp, x):
    _, r = xp.qr(x)
    return xp.real(r * xp.conj(r)) * ladder(r)


def _eigh_function(xp, x):
    w, v = xp.eigh(x + xp.adjoint(x))
    return v * xp.sinh(w / 4.0) @ xp.adjoint(v)


def _eigh_projector(xp, x):
    w, v = xp.eigh(x)
    mask = like(x, np.eye(x.shape[0])[1])
    return v * mask @ xp.adjoint(v) * w[0]


MATRIX, TALL, WIDE = ((3, 3),), ((4, 3),), ((3, 4),)
CASES = {
    # entry by entry, and broadcasting
    "add": Case(lambda xp, x, y: x + y + x, ((3, 3), (3, 3))),
    "sub": Case(lambda xp, x, y: (x - y) - (1.0 - x), ((3, 3), (3, 3))),
    "mul": Case(lambda xp, x, y: x * y * x, ((3, 3), (3, 3))),
    "div": Case(lambda xp, x, y: x / y + 2.0 / y, ((3, 3), (3, 3))),
    "neg": Case(lambda xp, x: -x * x),
    "arrays on the left": Case(lambda xp, x: ladder(x)[0] * x - like(x, np.ones((2, 1, 3))) / x),
    "columns and rows": Case(lambda xp, x, y: x * y + y, ((3, 1), (1, 3))),
    "scalar and vector": Case(lambda xp, x, y: x * y - y / x, ((), (3,))),
    "vector and matrix": Case(lambda xp, x, y: (x + y) * x, ((3,), (3, 3))),
    "one entry": Case(lambda xp, x, y: x * y, ((1,), (3, 3))),
    "broadcast": Case(lambda xp, x: xp.broadcast_to(x, (2, 3, 3)), ((3, 1),)),
    "broadcast a scalar": Case(lambda xp, x: xp.broadcast_to(x * x, (2, 1)), ((),)),
    "sqrt": Case(lambda xp, x: xp.sqrt(x * x + 1.0)),
    "log": Case(lambda xp, x: xp.log(x * x + 1.0)),
    "exp": Case(lambda xp, x: xp.exp(x) * x),
    "cosh": Case(lambda xp, x: xp.cosh(x)),
    "sinh": Case(lambda xp, x: xp.sinh(x)),
    "abs": Case(lambda xp, x: xp.absolute(x) * x, kinds="f"),
    "conj": Case(lambda xp, x: xp.conj(x) * x * x, kinds="c"),
    "real": Case(lambda xp, x: xp.real(x * x)),
    "convert to complex128": Case(lambda xp, x: xp.convert(x, "complex128") * (1.0 + 2.0j), kinds="f"),
    "real times complex": Case(lambda xp, x: x * 1j + xp.real(x) * x),
    "where": Case(lambda xp, x, y: xp.where(xp.real(x) > xp.real(y), x * y, y / 2.0), ((3, 3), (3, 3))),
    "where broadcast": Case(lambda xp, x, y: xp.where(np.array([True, False, True]), x, y), ((3, 1), ())),
    "compare": Case(lambda xp, x: xp.where(x == x, x * x, 0.0) + xp.where(xp.real(x) <= 0.0, 1.0, x)),
    # moving entries
    "reshape": Case(lambda xp, x: (x * x).reshape(3, 2, -1), ((2, 6),)),
    "transpose": Case(lambda xp, x: (x * x).transpose(1, 2, 0).T, ((2, 3, 1),)),
    "sum": Case(lambda xp, x: xp.sum(x * x, (0, -1)) + xp.sum(x), ((2, 3, 2),)),
    "slice": Case(lambda xp, x: x[1:, ::2] * x[:-1, 1:], ((3, 3),)),
    "slice a few": Case(lambda xp, x: (x * x)[1:6:2], ((7,),)),
    "slice nothing": Case(lambda xp, x: xp.sum((x * x)[2:1]) + x, ((3,),)),
    "slice_axis": Case(lambda xp, x: xp.slice_axis(x * x, 1, 1, 3), ((2, 4),)),
    "rows and new axes": Case(lambda xp, x: x[-1] * x[0, :, None], ((3, 3),)),
    "pad": Case(lambda xp, x: xp.pad(x * x, (1, 0), (0, 2), (2, 1)), ((2, 3),)),
    "concatenate": Case(lambda xp, x, y: xp.concatenate([x * y[:, :1], y, x], 1) * 2.0, ((2, 3), (2, 2))),
    "concatenate along the first": Case(lambda xp, x, y: xp.concatenate([x * x, y[0]], 0), ((3,), (2, 2))),
    "pad one": Case(lambda xp, x: xp.pad(x * x, (2,), (1,), (3,)), ((1,),)),
    "take": Case(lambda xp, x: xp.take(x * x, [2, 0, 2, 2], 1), ((2, 3),)),
    "scatter": Case(lambda xp, x: xp.scatter(x * x, [3, 0, 3], 1, 5), ((2, 3),)),
    "truncate a vector": Case(lambda xp, x: xp.dynamic_truncate(x * x, 2, 0), ((4,),)),
    "truncate to nothing": Case(lambda xp, x: xp.sum(xp.dynamic_truncate(x * x, 0, 0)) + x, ((4,),)),
    "truncate a matrix": Case(lambda xp, x: xp.dynamic_truncate(x * x, 2, 1), ((2, 4),)),
    "extend": Case(lambda xp, x: xp.truncate_extend(x * x, 2, 1, 5), ((2, 3),)),
    "lower": Case(lambda xp, x: xp.lower(x * x)),
    # contractions
    "matmul": Case(lambda xp, x, y: x @ (y @ x[0]) + like(x, np.ones(3)) @ y, ((3, 3), (3, 3))),
    "einsum of three": Case(lambda xp, x, y, z: xp.einsum("ij,jk,kl->li", x, y, z), ((2, 3), (3, 3), (3, 2))),
    "diagonal": Case(lambda xp, x: xp.einsum("ii->i", x * x)),
    "trace": Case(lambda xp, x: xp.einsum("ii", x * x)),
    "diagonal of three": Case(lambda xp, x: xp.einsum("iii->i", x * x), ((2, 2, 2),)),
    "diagonal in a product": Case(lambda xp, x, y: xp.einsum("iij,jk->ik", x, y), ((2, 2, 3), (3, 2))),
    "labels summed alone": Case(lambda xp, x, y: xp.einsum("ij,kl->jk", x * x, y), ((2, 3), (2, 3))),
    "scalars in einsum": Case(lambda xp, x, y: xp.einsum(",ij,->ji", y, x, y), ((2, 3), ())),
    "one operand twice": Case(lambda xp, x: xp.einsum("ij,kj,ik->", x, x, x)),
    # decompositions
    "solve": Case(lambda xp, x, y: xp.solve(x + like(x, 4.0 * np.eye(3)), y), ((3, 3), (3, 2))),
    "svd function": Case(_svd_function, MATRIX),
    "svd function, tall": Case(_svd_function, TALL),
    "svd function, wide": Case(_svd_function, WIDE),
    "svd function, one column": Case(_svd_function, ((3, 1),)),
    "svd function, one entry": Case(_svd_function, ((1, 1),)),
    "svd projectors": Case(_svd_projectors, MATRIX),
    "svd projectors, tall": Case(_svd_projectors, TALL),
    "svd projectors, wide": Case(_svd_projectors, WIDE),
    "svd values": Case(lambda xp, x: xp.svd(x)[1] * like(x, [3.0, -1.0, 0.5]), TALL),
    "svd of a product": Case(_phases, ((3, 4), (4, 2))),
    "qr": Case(_qr_left, MATRIX),
    "qr, tall": Case(_qr_left, TALL),
    "qr, wide": Case(_qr_left, WIDE),
    "qr projector": Case(_qr_projector, MATRIX),
    "qr projector, tall": Case(_qr_projector, TALL),
    "qr projector, wide": Case(_qr_projector, WIDE),
    "qr values": Case(_qr_values, MATRIX),
    "qr values, wide": Case(_qr_values, WIDE),
    # the diagonal of r is real: the phases of q are fixed
    "q": Case(lambda xp, x: xp.qr(x)[0], TALL),
    "r": Case(lambda xp, x: xp.qr(x)[1], WIDE),
    "q, wide": Case(lambda xp, x: xp.qr(x)[0], WIDE),
    "r, square": Case(lambda xp, x: xp.qr(x)[1], MATRIX),
    "eigh function": Case(_eigh_function, MATRIX),
    "eigh projector": Case(_eigh_projector, MATRIX),
    "eigh of one entry": Case(_eigh_function, ((1, 1),)),
    "eigh values": Case(lambda xp, x: xp.eigh(x)[0] * like(x, [3.0, -1.0, 0.5]), MATRIX),
}  # fmt: skip
# 1/x is not the derivative that a finite difference of x / (x^2 + eps2) has
LORENTZ = {"lorentz": Case(lambda xp, x: xp.lorentz(x))}
TABLE = CASES | LORENTZ

DTYPE = {"f": "float64", "c": "complex128"}
EVERY = [(name, kind) for name, case in TABLE.items() for kind in case.kinds]
SMOOTH = [(name, kind) for name, kind in EVERY if name not in LORENTZ]


class Derivatives(NamedTuple):
    y: object
    tangent: object
    gradients: list
    second: list


def weights(shape, dtype):
    return random_array(shape, dtype, 99)


def arguments(name, dtype, seed=0):
    return [random_array(shape, dtype, seed + i) for i, shape in enumerate(TABLE[name].shapes)]


@lru_cache(maxsize=None)
def program(name, dtype):
    """Of (*x, *dx): the function, its derivative along dx, the gradient of g and that of <the gradient of g, dx>."""
    case = TABLE[name]
    xs, dxs = ([traced.placeholder(shape, dtype) for shape in case.shapes] for _ in range(2))
    with traced.pad_truncated(), traced.fold_extents():
        y = case.function(OURS, *xs)
        sizes = jax.eval_shape(lambda *x: case.function(JAX, *x), *arguments(name, dtype)).shape
        g = scalar(y, sizes)
        gradients = traced.grad(g, xs)
        slope = [traced.real(traced.sum(a * dx)) for a, dx in zip(gradients, dxs, strict=True)]
        second = traced.grad(sum(slope[1:], slope[0]), xs)
        outputs = [y, traced.jvp(y, xs, dxs), *gradients, *second]
    return traced.compile(outputs, [*xs, *dxs])


def scalar(y, sizes):
    """g = Re sum(w * y); for a y of computed length w is truncated as well."""
    w = type(y).constant(weights(sizes, y.dtype))
    for axis, e in enumerate(y.shape):
        if isinstance(e, traced.UpperBound):
            after = [int(e.bound) - sizes[axis] if a == axis else 0 for a in range(y.ndim)]
            w = traced.dynamic_truncate(traced.pad(w, [0] * y.ndim, after), e.length, axis)
    return traced.real(traced.sum(y * w))


def run(name, dtype, x, dx):
    y, tangent, *gradients = program(name, dtype)(*x, *dx)
    return Derivatives(y, tangent, gradients[: len(x)], gradients[len(x) :])


def size(*arrays):
    return max(1.0, *(np.abs(a).max(initial=0.0) for a in arrays))


def assert_close(found, expected, tolerance):
    """Within the tolerance times the largest entry."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size(expected))


def inner(a, b):
    """Re sum(a * b) over lists of arrays."""
    return sum(np.real(np.sum(x * y)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_jax_says_the_same(name, kind):
    x, dx = arguments(name, DTYPE[kind]), arguments(name, DTYPE[kind], seed=10)
    found = run(name, DTYPE[kind], x, dx)

    @jax.jit
    def derivatives(x, dx, w):
        def function(*x):
            return TABLE[name].function(JAX, *x)

        y, vjp = jax.vjp(function, *x)
        return y, jax.jvp(function, x, dx)[1], vjp(w)

    y, tangent, gradients = derivatives(x, dx, weights(found.y.shape, found.y.dtype))
    assert_close(found.y, y, 1e-13)
    assert_close(found.tangent, tangent, 1e-12)  # divided by gaps of order 1e-1
    for ours, theirs in zip(found.gradients, gradients, strict=True):
        assert_close(ours, theirs, 1e-12)


@pytest.mark.parametrize(("name", "kind"), SMOOTH)
def test_finite_differences(name, kind):
    """Of g along dx, and of <gradient, dx> along dx: the second derivative."""
    x, dx = arguments(name, DTYPE[kind]), arguments(name, DTYPE[kind], seed=10)
    found = run(name, DTYPE[kind], x, dx)

    def along(t):
        moved = run(name, DTYPE[kind], [a + t * d for a, d in zip(x, dx, strict=True)], dx)
        return np.array([inner([moved.y], [weights(moved.y.shape, moved.y.dtype)]), inner(moved.gradients, dx)])

    # h^2 / 6 times a third derivative of order 1e2 to 1e4 (gaps of order 1e-1), and rounding, 1e-15 / h
    difference = central(along, 0.0, 1e-5)
    derivative = [inner(found.gradients, dx), inner(found.second, dx)]
    np.testing.assert_allclose(derivative, difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_reverse_mode_is_the_transpose_of_forward_mode(name, kind):
    x, dx = arguments(name, DTYPE[kind], seed=3), arguments(name, DTYPE[kind], seed=13)
    found = run(name, DTYPE[kind], x, dx)
    forward = inner([found.tangent], [weights(found.y.shape, found.y.dtype)])
    assert inner(found.gradients, dx) == pytest.approx(forward, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize(("name", "kind"), [case for case in EVERY if case[0] != "convert to complex128"])
def test_single_precision(name, kind):
    """Nothing becomes double on the way, and the results are those of double precision to its digits."""
    single = {"f": "float32", "c": "complex64"}[kind]
    x, dx = arguments(name, single), arguments(name, single, seed=10)
    nodes = program(name, single).nodes
    assert not {y.dtype.name for node in nodes for y in node.outputs} & {"float64", "complex128"}
    found, expected = run(name, single, x, dx), run(name, DTYPE[kind], x, dx)
    # 1e-7 per operation; a second derivative divides by the square of gaps of order 1e-1
    for ours, double, tolerance in zip(found, expected, (1e-5, 1e-4, 1e-4, 1e-2), strict=True):
        for a, b in zip(*([v] if isinstance(v, np.ndarray) else v for v in (ours, double)), strict=True):
            assert_close(a, b.astype(a.dtype), tolerance)


def all_ops():
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(traced.__path__, "trgnb.traced.")]
    return {op.name: op for module in modules for op in vars(module).values() if isinstance(op, Op)}


def has_derivative(op):
    return op.differentiable and not op.no_rule and op.kernel is not None


@pytest.mark.parametrize("op", sorted(name for name, op in all_ops().items() if has_derivative(op)))
def test_every_op_with_a_derivative_has_a_case(op):
    """In the function itself, not only in derivatives of others."""
    covered = set()
    for name, kind in EVERY:
        case = TABLE[name]
        with traced.fold_extents():
            y = case.function(OURS, *(traced.placeholder(shape, DTYPE[kind]) for shape in case.shapes))
        covered |= {node.op.name for node in traced.graph.ancestors([y])}
    assert op in covered
