"""Extents: symbols, bounds, what a decomposition hides, and the ways to the gradient of a slice of it."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from test_traced_rules import random_array
from tolerances import EXACT

from trgnb import traced
from trgnb.svd import svd as jax_svd
from trgnb.traced import Const, Min, Sym, UpperBound

# [svd-outputs]: an integer matrix, and a direction
K = np.arange(4)[:, None] + 4 * np.arange(4)
X, DX = (7 * K % 11 - 5).astype(float), np.cos(K)
COLUMN_0 = [-0.40139481011743905, 0.1798464933476977, -0.3375913943613522, 0.71462394083153]
SLOPE = -0.8939366745326536
GAP = "slice input requires constant exact or upper-bound extents"


def gradient(function, value, transform=traced.grad):
    x = traced.placeholder(value.shape)
    return traced.compile([transform(function(x), x)], [x])(value)[0]


def eager_gradient(function, value):
    x = traced.eager(value)
    function(x).backward()
    return x.grad


# --- what is recorded --------------------------------------------------------------------------------------------


def test_extents_of_the_decompositions():
    x = traced.placeholder((4, 4))
    four, smaller = Const(4), Min(Const(4), Const(4))
    assert x.shape == (four, four)
    assert [y.shape for y in x.svd()] == [(four, smaller), (smaller,), (smaller, four)]
    assert [y.shape for y in x.qr()] == [(four, smaller), (smaller, four)]
    assert [y.shape for y in x.eigh()] == [(four,), (four, four)]
    assert all(isinstance(e, Const) for y in x.eigh() for e in y.shape)
    assert repr(x.svd()[1].shape) == "(Min(Const(4), Const(4)),)"
    s = x.svd()[1]
    assert s.concrete_shape == (4,) and smaller != four
    assert s.reshape(4).shape == s.reshape([4]).shape == s.reshape(-1).shape == (four,)
    with traced.fold_extents():
        assert all(isinstance(e, Const) for y in (*x.svd(), *x.qr()) for e in y.shape)
        with traced.fold_extents(False):
            assert x.svd()[1].shape == (smaller,)
        assert x.svd()[1].shape == (four,)
    assert not traced.fold_extents.on


def test_full_svd():
    x = traced.placeholder((6, 4))
    shapes = [y.shape for y in traced.compile([*x.svd_full(), *x.svd()], [x])(np.ones((6, 4)))]
    assert shapes == [(6, 6), (4,), (4, 4), (6, 4), (4,), (4, 4)]
    for transform, rule in ((traced.grad, "vjp"), (lambda y, x: traced.jvp(y, x, np.ones((6, 4))), "jvp")):
        with pytest.raises(traced.DerivativeError, match=f"unsupported {rule} AD rule for svd_full.*use svd") as error:
            transform(x.svd_full()[1].sum(), x)
        assert isinstance(error.value, NotImplementedError)
    with pytest.raises(traced.DerivativeError, match="unsupported vjp AD rule for svd_full"):
        traced.eager(np.ones((6, 4))).svd_full()[1].sum().backward()


# --- slices of a decomposition -------------------------------------------------------------------------------------

SLICES = {
    "s[:2]": lambda x: x.svd()[1][:2],
    "s.slice": lambda x: x.svd()[1].slice((0,), (2,)),
    "s.slice_axis": lambda x: x.svd()[1].slice_axis(0, 0, 2),
    "u[:, :2]": lambda x: x.svd()[0][:, :2],
    "u.slice_axis": lambda x: x.svd()[0].slice_axis(1, 0, 2),
    "vt[:2, :]": lambda x: x.svd()[2][:2, :],
    "vt[:2]": lambda x: x.svd()[2][:2],
    "vt.slice": lambda x: x.svd()[2].slice((0, 0), (2, 4)),
    "q[:, :2]": lambda x: x.qr()[0][:, :2],
    "q.slice": lambda x: x.qr()[0].slice((0, 0), (4, 2)),
    "r[:2, :]": lambda x: x.qr()[1][:2, :],
    "r.slice_axis": lambda x: x.qr()[1].slice_axis(0, 0, 2),
}  # fmt: skip
JAX_SLICES = {"s": (jax_svd, 1, np.s_[:2]), "u": (jax_svd, 0, np.s_[:, :2]), "vt": (jax_svd, 2, np.s_[:2]),
              "q": (jnp.linalg.qr, 0, np.s_[:, :2]), "r": (jnp.linalg.qr, 1, np.s_[:2])}  # fmt: skip


@pytest.mark.parametrize("name", SLICES)
def test_a_direct_slice(name):
    """Its value and jvp are there, its gradient is not, traced or eager; folded extents mend it."""

    def total(x):
        y = SLICES[name](x)
        return (y * y * y).sum()

    with pytest.raises(traced.DerivativeError, match=GAP):
        gradient(total, X)
    with pytest.raises(traced.DerivativeError, match=GAP):
        eager_gradient(total, X)

    def in_jax(x):
        decompose, which, part = JAX_SLICES[name.split("[")[0].split(".")[0]]
        return (decompose(x)[which][part] ** 3).sum()

    value, tangent = jax.jvp(in_jax, (jnp.asarray(X),), (jnp.asarray(DX),))
    x = traced.placeholder((4, 4))
    found = traced.compile([total(x), traced.jvp(total(x), x, DX)], [x])(X)
    np.testing.assert_allclose(found, [value, tangent], rtol=1e-12)
    with traced.fold_extents():
        folded, eager = gradient(total, X), eager_gradient(total, X)
    np.testing.assert_allclose(folded, jax.grad(in_jax)(jnp.asarray(X)), rtol=0, atol=1e-13 * np.abs(folded).max())
    np.testing.assert_array_equal(eager, folded)


WAYS = {
    "reshape": lambda s: s.reshape(4)[:2].sum(),
    "mask": lambda s: (s * np.array([1.0, 1.0, 0.0, 0.0])).sum(),
    "take": lambda s: s.take([0, 1], 0).sum(),
    "list": lambda s: s[[0, 1]].sum(),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_around_the_slice(way):
    """Every way, traced, eager and folded, gives the same bits, and JAX's gradient."""
    found = gradient(lambda x: WAYS[way](x.svd()[1]), X)
    with traced.fold_extents():
        folded = gradient(lambda x: x.svd()[1][:2].sum(), X)
    np.testing.assert_array_equal(found, folded)
    np.testing.assert_array_equal(eager_gradient(lambda x: WAYS[way](x.svd()[1]), X), found)
    np.testing.assert_allclose(found, jax.grad(lambda x: jax_svd(x)[1][:2].sum())(X), atol=EXACT)
    np.testing.assert_allclose(found[:, 0], COLUMN_0, atol=EXACT)
    slope = gradient(lambda x: WAYS[way](x.svd()[1]), X, lambda y, x: traced.jvp(y, x, DX))
    assert slope == pytest.approx(SLOPE, abs=EXACT)


def test_eigh_is_sliced_directly():
    a = X + X.T
    for part in (lambda w, v: w[2:].sum(), lambda w, v: (v[:, 2:] * v[:, 2:] * v[:, 2:]).sum()):
        found = gradient(lambda x: part(*x.eigh()), a)
        expected = jax.grad(lambda x: part(*jnp.linalg.eigh(x)))(jnp.asarray(a))
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_array_equal(eager_gradient(lambda x: part(*x.eigh()), a), found)


# --- symbols -------------------------------------------------------------------------------------------------------


def test_symbols_are_bound_when_the_program_runs():
    x, y = traced.placeholder(("n", 3)), traced.placeholder(("n",))
    assert x.shape[0] == Sym("n") and x.concrete_shape is None
    z = (traced.einsum("ij,i->j", x, y) * x.sum(0)).sum()
    program = traced.compile([z, *traced.grad(z, [x, y]), x.reshape(3, "n"), traced.grad(y.sum() * 0.0, x)], [x, y])
    for n in (0, 1, 4):
        a, b = random_array((n, 3), "float64", 0), random_array((n,), "float64", 1)
        value, *rest = program(a, b)
        expected, (da, db) = jax.value_and_grad(lambda a, b: ((b @ a) * a.sum(0)).sum(), (0, 1))(a, b)
        for found, wanted in zip([value, *rest], (expected, da, db, a.reshape(3, n), np.zeros((n, 3))), strict=True):
            np.testing.assert_allclose(found, wanted, atol=EXACT)
    with pytest.raises(ValueError, match=r"input 1 must have the shape \[Sym\(n\)\], got \[3\] \(Sym\(n\) = 2\)"):
        program(np.ones((2, 3)), np.ones(3))


def test_a_decomposition_of_unknown_size():
    x = traced.placeholder(("m", "n"))
    u, s, vh = x.svd()
    y = (traced.sinh(s) * s).sum() + (u * s @ vh).sum()
    program = traced.compile([traced.grad(y, x)], [x])
    for shape in ((3, 3), (2, 3), (4, 2), (1, 3)):
        a = random_array(shape, "float64", 2)
        left, values, right = np.linalg.svd(a, full_matrices=False)
        expected = left * (np.sinh(values) + values * np.cosh(values)) @ right + 1.0
        np.testing.assert_allclose(program(a)[0], expected, atol=1e-13)
    with pytest.raises(ValueError, match=r"slice: limit 3 of axis 0 is beyond the 2 entries"):
        traced.compile([s[:3]], [x])(np.ones((2, 3)))
    with pytest.raises(traced.DerivativeError, match="qr needs known extents"):
        traced.grad(x.qr()[1].sum(), x)


def test_a_square_matrix_of_unknown_size():
    x = traced.placeholder(("n", "n"))
    y = (x.eigh()[0] * 2.0).sum() + traced.solve(x, x @ x).sum() + traced.einsum("ii", x)
    program = traced.compile([traced.grad(y, x)], [x])
    for n in (1, 3):
        a = np.eye(n) * 2.0 + 0.1
        np.testing.assert_allclose(program(a)[0], 3.0 * np.eye(n) + 1.0, atol=1e-14)


def test_extents_of_another_tensor():
    """A cotangent may come before the input whose symbols it needs."""
    x = traced.placeholder(("n", 3))
    s = x.svd()[1]
    ct = traced.placeholder(s.shape)
    program = traced.compile(traced.vjp([s], [x], [ct]), [ct, x])
    np.testing.assert_allclose(program([1.0, 1.0], np.eye(2, 3))[0], np.eye(2, 3), atol=EXACT)
    with pytest.raises(ValueError, match=r"input 0 must have the shape \[Min\(Sym\(n\), Const\(3\)\)\], got \[3\]"):
        program(np.ones(3), np.eye(2, 3))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda n: n + np.ones(3), r"add got shapes \[Sym\(n\)\] and \[3\].*known to be so when recorded"),
        (lambda n: n[1:], r"whose extent is not known, needs 0 <= start <= stop"),
        (lambda n: n.reshape(-1), "cannot find the -1"),
        (lambda n: n.pad((1,), (0,)), "pad needs a known extent"),
        (lambda n: n.shape[0] * 2, "has no arithmetic"),
        (lambda n: range(n.shape[0]), "is no number while the graph is recorded"),
        (lambda n: list(n), "only a tensor whose first extent is known"),
        (lambda n: traced.grad(n[:2].sum(), n), GAP),
        (lambda n: traced.placeholder(-1), "an extent is a whole number >= 0, a name"),
        (lambda n: traced.placeholder("2 n"), "an extent is a whole number >= 0, a name"),
    ],
)
def test_what_an_unknown_extent_cannot_do(function, message):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=message):
        function(traced.placeholder("n"))


# --- lengths that are computed ---------------------------------------------------------------------------------------


def truncated():
    x, k = traced.placeholder((3, 4)), traced.placeholder((), "int64")
    y = traced.dynamic_truncate(x * x, k, 1)
    return x, k, y


def test_one_program_for_every_length():
    x, k, y = truncated()
    assert y.shape == (Const(3), UpperBound(Const(4), k)) and repr(y.shape[1]) == "UpperBound(Const(4))"
    assert y.concrete_shape is None
    with traced.pad_truncated():
        gradient = traced.grad((y * y).sum(), x)
    program = traced.compile([y, y.sum(0), gradient], [x, k])
    a = random_array((3, 4), "float64", 3)
    for n in range(5):
        part, total, slope = program(a, n)
        np.testing.assert_array_equal(part, (a * a)[:, :n])
        np.testing.assert_array_equal(total, (a * a)[:, :n].sum(0))
        mask = np.arange(4) < n
        np.testing.assert_allclose(slope, 4 * a**3 * mask, atol=EXACT)
    for n in (-1, 5):
        with pytest.raises(ValueError, match=rf"got k = {n} at run time: axis 1 has 4 entries, so 0 <= k <= that"):
            program(a, n)


def test_only_a_vector_is_differentiated_by_default():
    x, k, y = truncated()
    with pytest.raises(traced.DerivativeError, match="cotangent of a truncated tensor with 2 axes.*pad_truncated"):
        traced.grad(y.sum(), x)
    t = traced.eager(np.ones((3, 4)))
    with pytest.raises(traced.DerivativeError, match="multiply by a mask"):
        t.dynamic_truncate(2, 1).sum().backward()
    v = traced.placeholder(4)
    z = traced.dynamic_truncate(v * v, k, 0).sum()
    np.testing.assert_array_equal(traced.compile([traced.grad(z, v)], [v, k])(np.ones(4), 3)[0], [2, 2, 2, 0])


@pytest.mark.parametrize("eager", [False, True])
def test_a_rank_that_the_values_choose(eager):
    """k = sum(s > tol), the truncated product, and its gradient as by a mask."""
    a = X @ np.diag([1.0, 1.0, 1e-9, 0.0])

    def product(x, mask):
        u, s, vh = x.svd()
        if mask:
            return (u * traced.where(s > 1e-3, s, 0.0) @ vh * DX).sum()
        k = traced.convert(s > 1e-3, "int64").sum()
        u, s, vh = (y.dynamic_truncate(k, axis) for y, axis in ((u, 1), (s, 0), (vh, 0)))
        return (traced.einsum("ij,j,jk->ik", u, s, vh) * DX).sum()

    differentiate = eager_gradient if eager else gradient
    with traced.pad_truncated():
        found = differentiate(lambda x: product(x, False), a)
    np.testing.assert_allclose(found, differentiate(lambda x: product(x, True), a), atol=1e-12)


def test_a_length_made_of_the_input():
    """The number that it is has no derivative."""
    x = traced.placeholder(4)
    k = traced.convert(x.sum(), "int64")
    y = traced.dynamic_truncate(x * x, k, 0).sum()
    value = np.array([1.0, 0.5, 0.25, 0.25])
    gradient, tangent = traced.compile([traced.grad(y, x), traced.jvp(y, x, np.ones(4))], [x])(value)
    np.testing.assert_array_equal(gradient, np.where(np.arange(4) < 2, 2 * value, 0))
    assert tangent == gradient.sum()


@pytest.mark.parametrize(
    ("k", "error"), [(2.5, TypeError), (True, TypeError), (np.ones(2, int), TypeError), ("2", TypeError)]
)  # fmt: skip
def test_bad_lengths(k, error):
    with pytest.raises(error, match="scalar of int64|the library has"):
        traced.placeholder(4).dynamic_truncate(k, 0)
