"""Decompositions where it matters: equal values, zeros, odd shapes, all scales; and indices and types at the edge."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from test_traced_rules import like, random_array
from tolerances import EXACT, central

from trgnb import traced
from trgnb.svd import safe_sqrt
from trgnb.svd import svd as jax_svd

TALL = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def derivatives(function, value, *directions):
    """The gradient of a function at an array, and its derivatives along directions."""
    x = traced.placeholder(value.shape, value.dtype)
    with traced.fold_extents():
        y = function(x)
        return traced.compile([traced.grad(y, x), *(traced.jvp(y, x, d) for d in directions)], [x])(value)


def gradient(function, value):
    return derivatives(function, value)[0]


def rebuild(x, **params):
    u, s, vh = x.svd(**params)
    return u * s @ vh


def rank_part(x, k):
    u, s, vh = x.svd()
    return u[:, :k] * s[:k] @ vh[:k, :]


def norm(x):
    return traced.real(x * x.conj()).sum().sqrt()


# --- closed forms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [TALL, TALL.T, TALL[:2], TALL[:, :1], TALL[:1], random_array((4, 2), "complex128", 0)])
@pytest.mark.parametrize("factors", [rebuild, lambda x: traced.matmul(*x.qr())])
def test_gradient_outside_the_column_space(a, factors):
    """sum sinh(U s Vh) is sum sinh(A): a rule without the m != n terms is off by a number of order one."""
    found = gradient(lambda x: traced.real(traced.sinh(factors(x) / 4.0).sum()), a)
    np.testing.assert_allclose(found, np.cosh(a / 4.0) / 4.0, atol=EXACT)


def test_gradient_at_equal_values():
    a = np.diag([1.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient(lambda x: norm(rebuild(x)), a), a / np.linalg.norm(a), atol=EXACT)


def test_gradient_at_zeros():
    expected = np.ones((4, 4))
    expected[2:, 2:] = 0
    found = gradient(lambda x: rank_part(x, 2).sum(), np.diag([2.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(found, expected, atol=EXACT)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_gradient_of_the_zero_matrix_is_finite(shape, dtype):
    found = gradient(lambda x: x.svd()[1].sum() + traced.real(rank_part(x, 1).sum()), np.zeros(shape, dtype))
    assert np.isfinite(found).all() and found.dtype == dtype


SCALES = [1e-300, 1e-100, 1e-7, 1.0, 1e7, 1e100, 1e200]


@pytest.mark.parametrize("scale", SCALES)
def test_gradient_does_not_depend_on_the_scale(scale):
    """With an absolute eps of 1e-12 the second entry is 1.2031397 at 1e-5 and .0492 at 1e-7."""
    a = np.array([[2.0, 0.3], [0.1, 1.0]])
    found = gradient(lambda x: rank_part(x, 1)[0, 1], scale * a)
    expected = [[-0.138517780796, 1.203150716910], [0.512483042425, 0.311914139490]]
    np.testing.assert_allclose(found, expected, atol=1e-12)  # the digits that are known

    def large_part(x):
        w, v = x.eigh()
        return (v[:, 1:] * w[1:] @ v[:, 1:].T)[0, 1]

    for function in (large_part, lambda x: (x.qr()[0] @ x.qr()[1])[0, 1]):
        np.testing.assert_allclose(gradient(function, scale * a), gradient(function, a), atol=EXACT)


@pytest.mark.parametrize("eps", [1e-12, 1e-23, 1e-300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_small_eps_does_not_underflow(eps, dtype):
    """eps^2 = 0 would give 0 / 0 at a degenerate pair."""
    a = np.eye(3, dtype=dtype)

    def of_eigh(x):
        w, v = x.eigh(eps=eps)
        return norm(v * w @ traced.adjoint(v))

    for function in (of_eigh, lambda x: norm(rebuild(x, eps=eps))):
        found = gradient(function, a)
        assert found.dtype == a.dtype
        np.testing.assert_allclose(found, np.eye(3) / np.sqrt(3), atol=10 * np.finfo(dtype).eps)


def kept_part(svd, xp, x, weight):
    """What is above 1/2, weighted, and a function of the values."""
    u, s, vh = svd(x)
    kept = u * xp.where(s > 0.5, s, 0.0) @ vh
    return xp.real((kept * weight).sum() + (s * s * s).sum())


@jax.jit
def kept_part_in_jax(a, da, weight):
    def function(x):
        return kept_part(jax_svd, jnp, x, weight)

    return jax.grad(function)(a), jax.jvp(function, (a,), (da,))[1]


VALUES = {
    "equal": [2.0, 2.0, 1.0],
    "zero": [3.0, 2.0, 0.0],
    "two zeros": [3.0, 0.0, 0.0],
    "all equal": [2.0, 2.0, 2.0],
    "near": [2.0, 2.0 - 1e-9, 1.0],
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 5)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_equal_and_zero_values_as_in_jax(values, shape, dtype):
    """The rule is the one of ``trgnb.svd``: kept and dropped parts, norms and traces, forward and reverse."""
    u, v = (np.linalg.qr(random_array((n, 3), dtype, i))[0] for i, n in enumerate(shape))
    a, da, weight = u * VALUES[values] @ v.conj().T, random_array(shape, dtype, 5), random_array(shape, dtype, 6)
    # the same number for each of several equal values: else the rule drops what depends on the basis they come in
    block = u.T @ weight @ v.conj()
    groups = np.isclose(VALUES[values], np.reshape(VALUES[values], (-1, 1)), atol=1e-6)
    mean = np.eye(3) * (groups @ np.diag(block) / groups.sum(axis=1))
    weight = weight + u.conj() @ (np.where(groups, mean, block) - block) @ v.T

    found, tangent = derivatives(lambda x: kept_part(traced.svd, traced, x, weight), a, da)
    expected, expected_tangent = kept_part_in_jax(a, da, weight)
    # a degenerate pair multiplies the last digits by up to 1 / (2 eps), in either library
    tolerance = 1e-12 if "zero" in values else 1e-5
    np.testing.assert_allclose(found, expected, atol=tolerance)
    assert tangent == pytest.approx(float(expected_tangent), abs=tolerance)
    assert tangent == pytest.approx(np.real((found * da).sum()), abs=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("values", [[1.0, 1.0, 3.0], [0.0, 0.0, 2.0], [-2.0, 1.0, 1.0], [1.0] * 3, [0.0] * 3])
def test_eigh_at_equal_values(values, dtype):
    """sum(W * f(A)) with f = w^3: the gradient of a matrix polynomial is known, whatever is degenerate."""
    v = np.linalg.qr(random_array((3, 3), dtype, 1))[0]
    a = v * values @ v.conj().T
    weight = random_array((3, 3), dtype, 2)

    def cube(x):
        w, v = x.eigh()
        return traced.real((v * (w * w * w) @ traced.adjoint(v) * weight).sum())

    def polynomial(x):
        h = (x + traced.adjoint(x)) / 2.0
        return traced.real((h @ h @ h * weight).sum())

    # of an equal pair the rule keeps what leaves it equal: compare along directions that do; the pair multiplies the
    # last digits by up to 1 / (2 eps)
    one = np.eye(3, dtype=dtype)
    split = v[:, 2:] @ v[:, 2:].conj().T if values[0] == values[1] != values[2] else 0.0
    for d in (a @ a, one + split):
        found, expected = (derivatives(f, a, d.astype(dtype)) for f in (cube, polynomial))
        assert found[1] == pytest.approx(expected[1], rel=1e-7, abs=1e-7)
        assert np.isfinite(found[0]).all()


# --- second derivatives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [TALL, TALL.T, TALL[:2]])
@pytest.mark.parametrize("factors", [rebuild, lambda x: traced.matmul(*x.qr())])
def test_hessian_of_the_rebuilt_matrix(a, factors):
    d = random_array(a.shape, "float64", 4)
    found = gradient(lambda x: (traced.grad(traced.sinh(factors(x)).sum() / 100.0, x) * d).sum(), a / 4.0)
    np.testing.assert_allclose(found, np.sinh(a / 4.0) * d / 100.0, atol=1e-12)  # two rules in a row


def test_third_derivative():
    """Of sum s^3 along a line."""
    a, d = random_array((3, 3), "float64", 0), random_array((3, 3), "float64", 1)
    t = traced.placeholder(())
    s = (a + t * d).svd()[1]
    y = (s * s * s).sum()
    for _ in range(2):
        y = traced.grad(y, t)
    program = traced.compile([y, traced.grad(y, t)], [t])
    # h^2 / 6 times a fifth derivative of order 1e3
    assert program(0.1)[1] == pytest.approx(central(lambda t: program(t)[0], 0.1, 1e-4), rel=1e-5)


# --- square roots, and the edge of the indices -----------------------------------------------------------------------


def test_square_root_at_zero():
    """Slice first, or the double where."""
    s, slope = np.array([2.0, 0.0]), 0.5 / np.sqrt(2)
    for spoiled in (
        lambda s: (s.sqrt() * np.array([1.0, 0.0])).sum(),
        lambda s: s.sqrt()[:1].sum(),
        lambda s: traced.where(s > 1e-14, s.sqrt(), 0.0).sum(),
    ):
        with pytest.warns(traced.NonFiniteWarning, match="div"):
            found = gradient(spoiled, s)
        np.testing.assert_array_equal(found, [slope, np.nan])
    for sound in (lambda s: s[:1].sqrt().sum(), lambda s: safe_sqrt(s, xp=traced).sum()):
        np.testing.assert_array_equal(gradient(sound, s), [slope, 0.0])


@pytest.mark.parametrize("driver", ["lapack", "flush"])
def test_roots_of_singular_values_at_zeros(driver):
    """d/dt sum sqrt(s(diag(2, 1, 0, 0) + t W)) of the two that are not zero: W_00 / (2 sqrt 2) + W_11 / 2."""
    w = np.random.default_rng(3).standard_normal((4, 4))
    t = traced.placeholder(())
    s = (t * w + np.diag([2.0, 1.0, 0.0, 0.0])).svd(driver=driver)[1]
    slope = traced.compile([traced.grad(safe_sqrt(s, xp=traced).sum(), t)], [t])(0.0)[0]
    assert slope == pytest.approx(0.6137752937474935, abs=1e-15)
    for spoiled in (s.sqrt(), traced.where(s > 1e-14, s.sqrt(), 0.0)):
        with pytest.warns(traced.NonFiniteWarning, match="div"):
            assert np.isnan(traced.compile([traced.grad(spoiled.sum(), t)], [t])(0.0)[0])


def test_flush():
    """Zeros as exact as they may be, of the sign that tells them from computed ones; other values untouched."""
    a = np.diag([2.0, 1.0, 1e-17, 1e-13])
    for dtype, kept in (("float64", 3), ("float32", 2)):
        values = traced.svd(traced.eager(a.astype(dtype)), driver="flush")[1].value
        np.testing.assert_array_equal(values[:kept], np.linalg.svd(a.astype(dtype))[1][:kept])
        assert values.dtype == dtype and (values[kept:] == 0).all() and np.signbit(values[kept:]).all()
    zeros = traced.svd(traced.eager(np.zeros((2, 2))), driver="flush")[1].value
    assert (zeros == 0).all()


INDICES = [
    np.s_[1], np.s_[-1], np.s_[1:3], np.s_[::2, 1:], np.s_[..., -1], np.s_[None, 0, ..., None], np.s_[:, -2:],
    np.s_[0:10], np.s_[3:1], np.s_[-2:-1], [0, 0, -1], np.s_[:, [2, 0]], np.s_[1:, None, [1]], np.s_[()], np.s_[...],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_an_index_is_numpys(index):
    a = random_array((3, 4), "float64", 0)
    x, t = traced.placeholder((3, 4)), traced.eager(a)
    found = traced.compile([x[index], traced.grad((x[index] * x[index]).sum(), x)], [x])(a)
    np.testing.assert_array_equal(found[0], a[index])
    np.testing.assert_array_equal(t[index].value, a[index])
    expected = np.zeros((3, 4))
    np.add.at(expected, index, 2 * a[index])
    np.testing.assert_allclose(found[1], expected, atol=EXACT)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.take([3], 0), ValueError, r"take got indices \[3\] for axis 0 of \[3, 4\]: allowed is 0 <= index"),
        (lambda x: x.take([-5], 1), ValueError, "allowed is 0 <= index < extent"),
        (lambda x: x.take([0.5], 1), TypeError, "a sequence of whole numbers"),
        (lambda x: x.take([True, False, True], 0), TypeError, "a sequence of whole numbers"),
        (lambda x: x.scatter([0, 1, 5], 0, 5), ValueError, r"allowed is 0 <= index < length"),
        (lambda x: x.scatter([0, 1], 0, 5), ValueError, "one for each entry"),
        (lambda x: x[3], IndexError, "index 3 is out of range for axis 0"),
        (lambda x: x[0, 0, 0], IndexError, "too many entries"),
        (lambda x: x[[0, 1], [0, 1]], TypeError, "a list beside another list or a number"),
        (lambda x: x[0, [0, 1]], TypeError, "a list beside another list or a number"),
        (lambda x: x[::-1], ValueError, "stride >= 1"),
        (lambda x: x[x > 0.0], TypeError, "needs dynamic_truncate or a mask"),
        (lambda x: x[True], TypeError, "is not a number, slice, list"),
        (lambda x: x.slice((0, 0), (3, 5)), ValueError, "0 <= start <= limit <= extent"),
        (lambda x: x.slice((0,), (3,)), ValueError, "for each of 2 axes"),
        (lambda x: x.slice_axis(0, -1, 2), ValueError, "0 <= start <= limit <= extent"),
        (lambda x: x.slice_axis(2, 0, 1), ValueError, "allowed are -2 to 1"),
        (lambda x: x.sum().sum(0), ValueError, "it has no axes"),
        (lambda x: x.pad((1,), (1,)), ValueError, "one amount for each axis"),
        (lambda x: x.pad((-1, 0), (0, 0)), ValueError, "pad takes amounts >= 0"),
        (lambda x: x.reshape(5, -1), ValueError, "cannot find the -1"),
        (lambda x: x.reshape(5, 2), ValueError, "12 entries are not 10"),
        (lambda x: x.transpose(0, 0), ValueError, "each axis is wanted once"),
        (lambda x: x + np.ones(3), ValueError, "the extents must be equal or 1"),
        (lambda x: traced.broadcast_to(x, (4, 3)), ValueError, "broadcast cannot make"),
        (lambda x: traced.einsum("ij,jk", x, x), ValueError, "the extents of 'j', Const.4. and Const.3.,"),
        (lambda x: traced.einsum("i...", x), ValueError, "letters, commas and ->"),
        (lambda x: traced.einsum("ij->ijj", x), ValueError, "each once"),
        (lambda x: traced.einsum("ij,k", x), ValueError, "a letter an axis"),
        (lambda x: x @ 2.0, ValueError, "@ takes vectors and matrices"),
        (lambda x: x.eigh(), ValueError, "takes a square matrix"),
        (lambda x: traced.solve(x, x), ValueError, "takes a square matrix"),
        (lambda x: x[0].svd(), ValueError, "svd takes a matrix"),
        (lambda x: x[:0].qr(), ValueError, "at least one row and column"),
        (lambda x: (x > 0.0).svd(), TypeError, "floating-point numbers, got bool"),
        (lambda x: x.svd(eps=0.0), ValueError, "eps must be a finite number > 0"),
        (lambda x: x.svd(driver="faer"), ValueError, "driver must be one of 'lapack', 'flush'"),
        (lambda x: -(x > 0.0), TypeError, "neg takes numbers, got bool"),
        (lambda x: traced.convert(x > 0.0, "int64").sqrt(), TypeError, "sqrt takes floating-point"),
        (lambda x: abs(x * 1j), TypeError, "abs of complex numbers has no derivative"),
        (lambda x: x * 1j < 0.0, TypeError, "complex numbers have no order"),
        (lambda x: traced.convert(x * 1j, "float64"), TypeError, "lose the imaginary part"),
        (lambda x: x.convert("int32"), TypeError, "convert makes bool, int64"),
        (lambda x: traced.where(x, x, x), TypeError, "takes a bool condition"),
        (lambda x: traced.compare(x, x, "<>"), ValueError, "direction must be one of"),
        (lambda x: x + None, TypeError, "the library has bool, int64"),
        (lambda x: bool(x), TypeError, "use where"),
        (lambda x: float(x), TypeError, "has no value while the graph is recorded"),
        (lambda x: np.asarray(x), TypeError, "has no value while the graph is recorded"),
        (lambda x: traced.placeholder(2, "float16"), TypeError, "has the dtypes bool"),
        (lambda x: traced.grad(x, x), ValueError, "takes a real scalar y"),
        (lambda x: traced.grad(x.sum() * 1j, x), ValueError, r"takes a real scalar y, got complex128\[\]"),
        (lambda x: traced.grad(x.sum(), x > 0.0), TypeError, "takes floating-point tensors"),
        (lambda x: traced.grad(x.sum(), x.shape), TypeError, "takes traced tensors, got Const"),
        (lambda x: traced.jvp(x, x, np.ones(4)), ValueError, "must have its shape and dtype"),
        (lambda x: traced.jvp(x, x, np.ones((1, 4))), ValueError, "must have its shape and dtype"),
        (lambda x: traced.jvp(x, x, np.ones((3, 4)) * 1j), ValueError, "must have its shape and dtype"),
        (lambda x: traced.jvp(x, [x], []), ValueError, "a tangent for each of 1 tensors, got 0"),
        (lambda x: traced.vjp([x], [x], []), ValueError, "a cotangent for each of 1 tensors, got 0"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(traced.placeholder((3, 4)))


def test_empty_arrays():
    x = traced.placeholder((0, 3))
    gradient = traced.grad((x * x).sum(), x)
    program = traced.compile([gradient, x @ x.T, x.take([], 1), x.take([], 0), x.T @ x, x[:, :2]], [x])
    shapes = [y.shape for y in program(np.zeros((0, 3)))]
    assert shapes == [(0, 3), (0, 0), (0, 0), (0, 3), (3, 3), (0, 2)]


def test_mixed_types():
    """Python numbers take the type of the tensor, arrays and tensors the larger of both, as in NumPy."""
    single, double, whole = (traced.placeholder(2, d) for d in ("float32", "float64", "int64"))
    for y in (single * 2, 2.0 - single, single / 3, 1j * single * 2.0, like(single, [1, 2]) * single, True * single):
        assert y.dtype in (np.float32, np.complex64)
    assert (single + double).dtype == (single * np.float64(2)).dtype == (single * whole).dtype == np.float64
    assert (whole + True).dtype == np.int64 and (whole * 0.5).dtype == np.float64
    y = (traced.einsum("i,i->", single, double) + traced.einsum("i,i->", single, 1j * double).real) * whole.sum()
    gradient = traced.grad(y, [single, double])
    assert [g.dtype for g in gradient] == [np.float32, np.float64]
    values = traced.compile(gradient, [single, double, whole])([1, 2], [3, 4], [1, 1])
    np.testing.assert_array_equal(values, [[6, 8], [2, 4]])
