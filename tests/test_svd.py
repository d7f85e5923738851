"""The SVD and its derivative, on functions that do not depend on signs, phases and the basis of a degenerate space."""

from functools import partial
from types import SimpleNamespace

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp
from tolerances import EXACT, central

from trgnb import staging, trg
from trgnb.svd import safe_sqrt, svd

TALL = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def own_svd(a):
    """JAX's own thin SVD and rule."""
    return jnp.linalg.svd(a, full_matrices=False)


def rebuild(a, decompose=svd):
    u, s, vh = decompose(a)
    return u * s @ vh


def rank_part(a, k, decompose=svd):
    u, s, vh = decompose(a)
    return u[:, :k] * s[:k] @ vh[:k, :]


def random_matrix(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((*shape, 2)) @ np.array([1, 1j])
    return jnp.asarray(a if np.issubdtype(dtype, np.complexfloating) else a.real, dtype)


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 4), (4, 1)])
def test_factors(shape, dtype):
    a = random_matrix(shape, dtype)
    u, s, vh = svd(a)
    k = min(shape)
    assert (u.shape, s.shape, vh.shape) == ((shape[0], k), (k,), (k, shape[1]))
    assert u.dtype == vh.dtype == a.dtype and s.dtype == a.real.dtype
    tolerance = 50 * jnp.finfo(dtype).eps
    np.testing.assert_allclose(rebuild(a), a, atol=tolerance)
    np.testing.assert_allclose(u.conj().T @ u, np.eye(k), atol=tolerance)
    np.testing.assert_allclose(vh @ vh.conj().T, np.eye(k), atol=tolerance)
    assert (jnp.diff(s) <= 0).all() and (s >= 0).all()


def test_integers_become_float64():
    assert all(x.dtype == jnp.float64 for x in svd([[1, 2], [3, 4]]))


# --- derivatives with a known answer --------------------------------------------------------------


@pytest.mark.parametrize("a", [TALL, TALL.T, TALL[:2], random_matrix((3, 1), "float64")])
def test_gradient_outside_the_column_space(a):
    """sum sin(U s Vh) is sum sin(A): a rule without the m != n terms is off by 0.83 on the tall matrix."""
    gradient = jax.grad(lambda a: jnp.sin(rebuild(a)).sum())(a)
    np.testing.assert_allclose(gradient, jnp.cos(a), atol=EXACT)


def test_gradient_at_equal_values():
    a = jnp.diag(jnp.array([1.0, 1.0, 2.0, 3.0]))

    def norm(a, decompose):
        return jnp.linalg.norm(rebuild(a, decompose))

    assert jnp.isnan(jax.grad(norm)(a, own_svd)).any()
    np.testing.assert_allclose(jax.grad(norm)(a, svd), a / jnp.linalg.norm(a), atol=EXACT)


def test_gradient_at_zeros():
    a = jnp.diag(jnp.array([2.0, 1.0, 0.0, 0.0]))

    def total(a, decompose):
        return rank_part(a, 2, decompose).sum()

    assert jnp.isnan(jax.grad(total)(a, own_svd)).any()
    expected = np.ones((4, 4))
    expected[2:, 2:] = 0
    np.testing.assert_allclose(jax.grad(total)(a, svd), expected, atol=EXACT)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_gradient_of_the_zero_matrix_is_finite(shape):
    gradient = jax.grad(lambda a: svd(a)[1].sum() + rank_part(a, 1).sum())(jnp.zeros(shape))
    assert jnp.isfinite(gradient).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e-7, 1e-6, 1e-5, 1.0, 1e100])
def test_gradient_does_not_depend_on_the_scale(scale):
    """With an absolute eps of 1e-12 the second entry is 1.2031397 at 1e-5, 1.1026 at 1e-6 and .0492 at 1e-7."""
    a = scale * jnp.array([[2.0, 0.3], [0.1, 1.0]])
    gradient = jax.grad(lambda a: rank_part(a, 1)[0, 1])(a)
    expected = [[-0.138517780796, 1.203150716910], [0.512483042425, 0.311914139490]]
    np.testing.assert_allclose(gradient, expected, atol=1e-12)  # the digits that are known


@pytest.mark.parametrize("eps", [1e-12, 1e-23, 1e-300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_a_small_eps_does_not_underflow(eps, dtype):
    """eps^2 = 0 would give 0 / 0 at a degenerate pair."""
    a = jnp.eye(3, dtype=dtype)
    gradient = jax.grad(lambda a: jnp.linalg.norm(rebuild(a, partial(svd, eps=eps))))(a)
    assert gradient.dtype == a.dtype
    np.testing.assert_allclose(gradient, np.eye(3) / np.sqrt(3), atol=10 * jnp.finfo(dtype).eps)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient_is_jaxs_own_where_that_is_finite(shape, dtype):
    a = random_matrix(shape, dtype)
    ours, own = (jax.jit(jax.grad(lambda a, d=d: jnp.cos(rank_part(a, 2, d)).sum()))(a) for d in (svd, own_svd))
    np.testing.assert_allclose(ours, own, atol=100 * jnp.finfo(dtype).eps)


def test_full_matrices_have_no_derivative():
    """The thin factors are the only ones to differentiate, even when just s is used."""
    with pytest.raises(NotImplementedError):
        jax.grad(lambda a: jnp.linalg.svd(a, full_matrices=True)[1].sum())(TALL)
    u, _, vh = svd(TALL)
    np.testing.assert_allclose(jax.grad(lambda a: svd(a)[1].sum())(TALL), u @ vh, atol=EXACT)


# --- second derivatives and transformations -------------------------------------------------------


@pytest.mark.parametrize("a", [TALL, TALL.T, TALL[:2]])
def test_hessian_of_the_rebuilt_matrix(a):
    hessian = jax.jit(jax.hessian(lambda a: jnp.sin(rebuild(a)).sum()))(a).reshape(a.size, a.size)
    np.testing.assert_allclose(hessian, np.diag(-np.sin(a).ravel()), atol=1e-12)  # two rules in a row


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
def test_hessian_of_a_truncation(shape):
    a, d = random_matrix(shape, "float64"), random_matrix(shape, "float64", seed=1)

    slope = jax.jit(jax.grad(lambda t: jnp.cos(rank_part(a + t * d, 2)).sum()))
    # h^2 / 6 times a fourth derivative of order 1e2
    np.testing.assert_allclose(jax.jit(jax.grad(slope))(0.0), central(slope, 0.0, 1e-4), rtol=1e-5)


def test_vmap_and_jit():
    stack = jnp.stack([random_matrix((4, 3), "float64", seed) for seed in range(3)])
    gradient = jax.grad(lambda a: jnp.cos(rank_part(a, 2)).sum())
    expected = jnp.stack([jax.jit(gradient)(a) for a in stack])
    np.testing.assert_allclose(jax.vmap(gradient)(stack), expected, atol=EXACT)
    np.testing.assert_allclose(jax.jit(jax.vmap(gradient))(stack), expected, atol=EXACT)


def test_inside_scan():
    """A custom_jvp function whose rule returns another container passes grad and jit and fails in lax.scan."""

    @jax.custom_jvp
    def named(a):
        return own_svd(a)

    @named.defjvp
    def _(primals, tangents):
        out, dout = jax.jvp(own_svd, primals, tangents)
        return tuple(out), tuple(dout)

    def scanned(a, decompose):
        return lax.scan(lambda a, _: (rank_part(a, 2, decompose), None), a, length=3)[0].sum()

    assert type(named(TALL)).__name__ == "SVDResult"
    jax.jit(jax.grad(lambda a: rank_part(a, 2, named).sum()))(TALL)
    with pytest.raises(TypeError, match="SVDResult"):
        jax.grad(scanned)(TALL, named)
    np.testing.assert_allclose(jax.grad(scanned)(TALL, svd), np.ones((3, 2)), atol=EXACT)


# --- the rule on random matrices ------------------------------------------------------------------

GAP = 1.75  # between the values that are kept and dropped
VALUES = [0.0, 1.0, 1.5, 2.0, 3.0, 4.0]


@st.composite
def problems(draw):
    """Singular values with repeats and zeros, a matrix with them and a direction."""
    shape = draw(st.sampled_from([(3, 3), (4, 3), (2, 4)]))
    dtype = draw(st.sampled_from(["float64", "complex128"]))
    k = min(shape)
    values = draw(st.lists(st.sampled_from(VALUES), min_size=k, max_size=k))
    seed = draw(st.integers(0, 2**20))
    u, v = (np.linalg.qr(random_matrix((n, k), dtype, seed + i))[0] for i, n in enumerate(shape))
    return np.array(values), jnp.asarray(u * values @ v.conj().T), random_matrix(shape, dtype, seed + 2)


NAMES = ("sum of cubes", "left projector", "right projector", "kept part", "matrix function")


def invariants(a):
    """Five numbers that do not depend on the gauge, from all three factors."""
    u, s, vh = svd(a)
    m, n = a.shape
    left, right, weight = (random_matrix(shape, a.dtype, 7) for shape in ((m, m), (n, n), (m, n)))
    above = s > GAP
    numbers = (
        jnp.sum(s**3),
        jnp.sum(left * (u * above @ u.conj().T)),
        jnp.sum(right * (vh.conj().T * above @ vh)),
        jnp.sum(weight * (u * jnp.where(above, s, 0.0) @ vh)),
        jnp.sum(weight * (u * jnp.sin(s) @ vh)),
    )
    return jnp.real(jnp.stack([jnp.asarray(x, a.dtype) for x in numbers]))


@jax.jit
def three_derivatives(a, da):
    """Of the invariants along da: forward mode, reverse mode, central differences."""
    _, forward = jax.jvp(invariants, (a,), (da,))
    (gradients,) = jax.vmap(jax.vjp(invariants, a)[1])(jnp.eye(len(NAMES)))
    reverse = jnp.real(jnp.sum(gradients * da, (1, 2)))
    # h^2 / 6 times a third derivative of order 1e3 (gaps of 1/2), and rounding, 1e-14 / h
    return forward, reverse, central(lambda t: invariants(a + t * da), 0.0, 1e-5)


def smooth(values):
    """For each of the invariants, whether these singular values leave it differentiable through the factors."""
    kept = values[values > GAP]
    some_function = len(set(values)) == len(values) and 0.0 not in values
    return np.array([True, True, True, len(set(kept)) == len(kept), some_function])


@hypothesis.settings(derandomize=True, deadline=None, max_examples=50)
@hypothesis.given(problems())
def test_rule_against_differences(problem):
    values, a, da = problem
    forward, _, difference = three_derivatives(a, da)
    which = smooth(values)
    np.testing.assert_allclose(forward[which], difference[which], rtol=1e-6, atol=1e-6)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=50)
@hypothesis.given(problems())
def test_reverse_mode_is_the_transpose_of_forward_mode(problem):
    """Whether or not there is a derivative: it is one linear rule."""
    values, a, da = problem
    forward, reverse, _ = three_derivatives(a, da)
    # a degenerate pair multiplies the last digits by up to 1 / (2 eps)
    tolerance = 1e-10 if len(set(values)) == len(values) else 1e-4
    np.testing.assert_allclose(reverse, forward, rtol=tolerance, atol=tolerance)


# --- the rule inside the renormalization group ----------------------------------------------------

BETA, GRADIENT = 0.44, 1.4027852749133  # the gradient at chi = 16, 20 steps


def trg_gradient(decompose):
    """Gradient at BETA with another SVD, (matrix, k) -> factors, in every step."""

    def step(t, k):
        return trg.step(t, k, SimpleNamespace(**vars(trg.JAX) | {"svd": partial(decompose, k=k)}))

    return float(jax.jit(jax.grad(lambda beta: staging.scan_lnz(beta, trg.schedule(16, 20), step=step)))(BETA))


def test_the_gradient_does_not_depend_on_a_small_eps():
    """Broadening costs eps^2 / gap^2 of each pair; from 1e-11 on nothing is left of that."""
    wide, narrow, narrower = (trg_gradient(lambda a, k, eps=eps: svd(a, eps)) for eps in (1e-4, 1e-11, 1e-20))
    assert 1e-6 < abs(wide - GRADIENT) < 1e-3
    assert narrow == pytest.approx(GRADIENT, abs=1e-12)
    assert narrower == pytest.approx(narrow, abs=1e-13)


def truncated(orthogonal):
    """A truncated SVD whose rule knows only the kept vectors, and multiplies its orthogonal term by a factor."""

    @partial(jax.custom_jvp, nondiff_argnums=(1,))
    def decompose(a, k):
        u, s, vh = own_svd(a)
        return u[:, :k], s[:k], vh[:k, :]

    @decompose.defjvp
    def _(k, primals, tangents):
        (a,), (da,) = primals, tangents
        u, s, vh = decompose(a, k)
        dp = u.T @ da @ vh.T
        gap = jnp.where(np.eye(k, dtype=bool), 0, s**2 - s[:, None] ** 2)
        f = gap / (gap**2 + 1e-24)
        inverse = s / (s**2 + 1e-24)
        dav, dau = da @ vh.T, da.T @ u
        du = u @ (f * (dp * s + (dp * s).T)) + orthogonal * (dav - u @ (u.T @ dav)) * inverse
        dv = vh.T @ (f * (s[:, None] * dp + (s[:, None] * dp).T)) + orthogonal * (dau - vh.T @ (vh @ dau)) * inverse
        return (u, s, vh), (du, jnp.diagonal(dp), dv.T)

    return decompose


def test_a_truncated_svd_needs_the_vectors_that_it_drops():
    """(I - U U^T) dA V / s is the orthogonal term only where the dropped values are zero.

    At this beta its error has the size and sign of that of a central difference with h = 1e-5.
    """
    assert trg_gradient(truncated(1.0)) - GRADIENT == pytest.approx(2.5e-4, rel=0.1)
    assert trg_gradient(truncated(0.0)) - GRADIENT == pytest.approx(3.4e-1, rel=0.1)


# --- square roots ---------------------------------------------------------------------------------


def test_square_root_at_zero():
    """Both branches of a where are differentiated: infinity times zero."""
    s, mask = jnp.array([2.0, 0.0]), jnp.array([1.0, 0.0])
    slope = 0.5 / np.sqrt(2)
    for spoiled in (
        lambda s: jnp.sum(mask * jnp.sqrt(s)),
        lambda s: jnp.sum(jnp.sqrt(s)[:1]),
        lambda s: jnp.sum(jnp.where(s > 1e-14, jnp.sqrt(s), 0.0)),
    ):
        np.testing.assert_array_equal(jax.grad(spoiled)(s), [slope, np.nan])
    for sound in (lambda s: jnp.sum(jnp.sqrt(s[:1])), lambda s: jnp.sum(safe_sqrt(s))):
        np.testing.assert_array_equal(jax.grad(sound)(s), [slope, 0.0])


def test_safe_sqrt_drops_what_is_not_above_tol():
    s = jnp.array([4.0, 1e-13, 1e-14, 1e-17, 0.0, -0.0])
    np.testing.assert_array_equal(safe_sqrt(s), [2.0, np.sqrt(1e-13), 0, 0, 0, 0])
    np.testing.assert_array_equal(safe_sqrt(s, tol=1.0), [2.0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(safe_sqrt(np.array(s), xp=np), safe_sqrt(s))


def test_safe_sqrt_twice_differentiated_forward_and_under_jit():
    s = jnp.array([4.0, 0.0])
    _, tangent = jax.jit(lambda s: jax.jvp(safe_sqrt, (s,), (jnp.ones(2),)))(s)
    np.testing.assert_array_equal(tangent, [0.25, 0.0])
    np.testing.assert_array_equal(jnp.diagonal(jax.hessian(lambda s: safe_sqrt(s).sum())(s)), [-1 / 32, 0.0])


def test_roots_of_singular_values_at_zeros():
    """d/dt sum sqrt(s(diag(2, 1, 0, 0) + t W)) of the two that are not zero: W_00 / (2 sqrt 2) + W_11 / 2."""
    w = np.random.default_rng(3).standard_normal((4, 4))
    a = jnp.diag(jnp.array([2.0, 1.0, 0.0, 0.0]))
    slope = jax.grad(lambda t: safe_sqrt(svd(a + t * w)[1]).sum())(0.0)
    assert slope == pytest.approx(0.6137752937474935, abs=1e-15)
    assert jnp.isnan(jax.grad(lambda t: jnp.sqrt(svd(a + t * w)[1]).sum())(0.0))


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1.0, jnp.ones(3), jnp.ones((2, 3, 3)), jnp.ones((0, 3)), jnp.ones((3, 0))])
def test_not_a_matrix(a):
    with pytest.raises(ValueError, match=r"svd takes a matrix .* got shape .*jax.vmap"):
        svd(a)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_not_finite(bad):
    with pytest.raises(ValueError, match="svd takes a matrix of finite numbers"):
        svd(jnp.eye(2).at[0, 1].set(bad))


@pytest.mark.parametrize("eps", [0.0, -1e-12, np.inf, np.nan])
def test_bad_eps(eps):
    with pytest.raises(ValueError, match="eps must be a finite number > 0.*got"):
        svd(TALL, eps)
