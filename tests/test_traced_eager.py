"""Eager tensors: values at once, gradients by programs from a cache, the same bits as the traced ones."""

import sys

import numpy as np
import pytest
from test_traced_rules import DTYPE, EVERY, OURS, TABLE, arguments, run, scalar
from tolerances import EXACT

from trgnb import traced, trg
from trgnb.ising import initial_tensor
from trgnb.svd import safe_sqrt
from trgnb.traced.svd import SVD


@pytest.fixture(autouse=True)
def empty_cache():
    traced.clear_cache()


@pytest.fixture
def decompositions(monkeypatch):
    """Counts the SVDs that run."""
    calls = []
    kernel = SVD.kernel
    monkeypatch.setitem(vars(SVD), "kernel", lambda a, **params: calls.append(a.shape) or kernel(a, **params))
    return calls


# --- traced and eager ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_the_bits_are_those_of_a_program(name, kind):
    x = arguments(name, DTYPE[kind])
    leaves = [traced.eager(a) for a in x]
    expected = run(name, DTYPE[kind], x, x)
    with traced.pad_truncated(), traced.fold_extents():
        y = TABLE[name].function(OURS, *leaves)
        np.testing.assert_array_equal(y.value, expected.y)
        scalar(y, expected.y.shape).backward()
    for leaf, gradient in zip(leaves, expected.gradients, strict=True):
        assert leaf.grad.dtype == leaf.dtype and leaf.grad.shape == leaf.concrete_shape
        np.testing.assert_array_equal(leaf.grad, gradient)


def test_values_at_once():
    x = traced.eager([[1, 2], [3, 4.5]])
    assert x.dtype == np.float64 and x.shape == x.concrete_shape == (2, 2)
    assert float(x[0, 0]) == 1.0 and int(x[1, 1]) == 4 and bool(x[0, 1] > 1.0)
    np.testing.assert_array_equal(np.asarray(x.T), [[1, 3], [2, 4.5]])
    np.testing.assert_array_equal(np.ones(2) @ x @ np.ones(2), 10.5)
    assert [row.value.tolist() for row in x] == [[1, 2], [3, 4.5]]
    assert "Eager(float64[2, 2]" in repr(x)
    assert traced.eager(3).dtype == np.int64 and traced.eager(np.float32(1)).dtype == np.float32


def test_a_leaf_is_a_copy():
    a = np.ones(2)
    x = traced.eager(a)
    a[:] = 5.0
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad, [2.0, 2.0])


# --- gradients ----------------------------------------------------------------------------------------------------


def test_gradients_add_up():
    x, y, c = traced.eager([1.0, 2.0]), traced.eager(3.0), np.array([1.0, 10.0])
    z = (x * x * y * c).sum() + x.sum()
    assert x.grad is None and y.grad is None
    z.backward()
    np.testing.assert_array_equal(x.grad, [7.0, 121.0])
    assert y.grad == 41.0
    z.backward()
    np.testing.assert_array_equal(x.grad, [14.0, 242.0])
    (x * 2.0).backward([1.0, 1.0])
    np.testing.assert_array_equal(x.grad, [16.0, 244.0])
    assert y.grad == 82.0 and z.grad is None


def test_gradients_of_two_leaves_are_two_arrays():
    x, y = traced.eager([1.0, 2.0]), traced.eager([1.0, 2.0])
    (x + y).sum().backward()
    x.grad *= 7.0
    np.testing.assert_array_equal(y.grad, [1.0, 1.0])


def test_several_outputs():
    x = traced.eager([[1.0, 2.0], [3.0, 5.0]])
    u, s, vh = x.svd()
    traced.backward([s.sum(), (u * s @ vh)], [2.0, np.ones((2, 2))])
    np.testing.assert_allclose(x.grad, 2.0 * (u.value @ vh.value) + 1.0, atol=1e-14)
    traced.backward([x, x], [np.ones((2, 2)), np.ones((2, 2))])
    np.testing.assert_allclose(x.grad, 2.0 * (u.value @ vh.value) + 3.0, atol=1e-14)


def test_what_a_constant_and_an_integer_get():
    x, n = traced.eager([1.0, 2.0]), traced.eager([3, 4])
    y = (x * n).sum()
    y.backward()
    np.testing.assert_array_equal(x.grad, [3.0, 4.0])
    assert n.grad is None
    leaf = traced.eager(2.0)
    leaf.backward()
    assert leaf.grad == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: (x * 2.0).backward(), ValueError, r"backward of float64\[2\] needs a cotangent"),
        (lambda x: (x * 1j).sum().backward(), ValueError, r"backward of complex128\[\] needs a cotangent"),
        (lambda x: (x * 2.0).backward(1.0), ValueError, "must have its shape"),
        (lambda x: traced.eager(1).backward(1), ValueError, "does not depend on a leaf that can be differentiated"),
        (lambda x: (x > 1.0).backward([1, 1]), ValueError, "does not depend on a leaf that can be differentiated"),
        (lambda x: traced.backward([x.value], [1.0]), TypeError, r"takes eager tensors, got ndarray"),
        (lambda x: traced.backward([traced.placeholder(2)], [1.0]), TypeError, r"traced tensors have grad\(y, x\)"),
        (lambda x: traced.grad(x.sum(), x), TypeError, r"eager tensors have backward\(\)"),
        (lambda x: x + traced.placeholder(2), TypeError, "add got traced and eager tensors together"),
        (lambda x: traced.einsum("i,i", traced.placeholder(2), x), TypeError, "got traced and eager tensors together"),
        (lambda x: traced.placeholder(2).dynamic_truncate(traced.eager(1), 0), TypeError, "traced and eager tensors"),
        (lambda x: traced.compile([x], []), TypeError, "takes outputs as a list of traced tensors"),
        (lambda x: traced.eager("a"), TypeError, "the library has bool, int64"),
        (lambda x: traced.eager(None), TypeError, "the library has bool, int64"),
        (lambda x: x + np.ones(3), ValueError, r"add got shapes \[2\] and \[3\]"),
        (lambda x: x[5], IndexError, "out of range"),
        (lambda x: x.svd(), ValueError, "svd takes a matrix"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(traced.eager([1.0, 2.0]))


def test_not_finite():
    x = traced.eager([4.0, 0.0])
    y = x.sqrt()
    np.testing.assert_array_equal(y.value, [2.0, 0.0])
    with pytest.warns(traced.NonFiniteWarning, match=r"= div\("):
        y.sum().backward()
    np.testing.assert_array_equal(x.grad, [0.25, np.inf])
    nan = traced.eager(np.nan)
    with pytest.warns(traced.NonFiniteWarning, match="came in with input"):
        (nan * nan).backward()
    assert np.isnan((nan * 0.0).value) and np.isnan(nan.grad)


# --- the cache ------------------------------------------------------------------------------------------------------


def function(x, n=2, **params):
    u, s, vh = x.svd(**params)
    return (s.take(range(n), 0) * 3.0).sum() + (u * s @ vh).sum()


def test_nothing_runs_twice(decompositions):
    x = traced.eager(np.diag([1.0, 2.0, 3.0]))
    y = function(x)
    assert len(decompositions) == 1
    for _ in range(2):
        y.backward()
    assert len(decompositions) == 1
    assert traced.cache_stats()[:4] == (1, 1, 1, 0)


def test_one_program_for_equal_tapes():
    for scale in (1.0, 2.0):
        function(traced.eager(np.diag([1.0, 2.0, 3.0]) * scale)).backward()
    (entries, hits, misses, evictions, size) = stats = traced.cache_stats()
    assert (entries, hits, misses, evictions) == (1, 1, 1, 0) and size > 0
    assert stats._fields == ("entries", "hits", "misses", "evictions", "bytes")
    traced.clear_cache()
    assert traced.cache_stats() == (0, 0, 0, 0, 0)


def two_leaves(swap):
    x, y = traced.eager([1.0, 2.0]), traced.eager([3.0, 4.0])
    return (x * y / (y if swap else x)).sum()


OTHERS = {
    "shape": lambda: function(traced.eager(np.eye(4))),
    "dtype": lambda: function(traced.eager(np.eye(3, dtype="float32"))),
    "complex": lambda: traced.real(function(traced.eager(np.eye(3) + 0j))),
    "parameter": lambda: function(traced.eager(np.eye(3)), eps=1e-6),
    "indices": lambda: function(traced.eager(np.eye(3)), n=1),
    "leaves": lambda: two_leaves(False),
    "which": lambda: two_leaves(True),
    "constant": lambda: (traced.eager([1.0, 2.0]) * np.ones(2)).sum(),
    "leaf": lambda: (traced.eager([1.0, 2.0]) * traced.eager(np.ones(2))).sum(),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_tape_is_another_program(what):
    function(traced.eager(np.eye(3))).backward()
    for other, make in OTHERS.items():
        if other != what:
            make().backward()
    before = traced.cache_stats()
    OTHERS[what]().backward()
    after = traced.cache_stats()
    assert (after.misses, after.hits) == (before.misses + 1, before.hits)


def test_another_setting_is_another_program():
    x = traced.eager(np.eye(3))
    y = x.take([0], 0).sum()
    for setting in (traced.fold_extents, traced.pad_truncated):
        y.backward()
        with setting():
            y.backward()
    assert traced.cache_stats()[:3] == (3, 1, 3)


def test_a_full_cache_drops_what_was_used_longest_ago(monkeypatch):
    module = sys.modules["trgnb.traced.eager"]  # whose name is that of its function
    monkeypatch.setattr(module, "_cache", module._Cache(2))

    def run(n):
        traced.eager(np.ones(n)).sum().backward()

    for n in (1, 2, 1, 3, 1):
        run(n)
    assert traced.cache_stats()[:4] == (2, 2, 3, 1)
    run(2)  # was dropped, and drops 3
    assert traced.cache_stats()[:4] == (2, 2, 4, 2)


def test_a_failure_is_not_kept():
    x = traced.eager(np.eye(3))
    for _ in range(2):
        with pytest.raises(traced.DerivativeError):
            x.svd()[1][:2].sum().backward()
    assert traced.cache_stats()[:3] == (0, 0, 2) and x.grad is None


# --- the step of the renormalization group ----------------------------------------------------------------------------

STEP = {2: (2.8236462733691012, 2.8873891988539446, 1e-13), 3: (2.8236462733691012, 2.8873891988539473, 1e-8)}
SQRT_2 = (2.6681917237379777, 2.9280661736460765)


def step(beta, k, sqrt=lambda s, xp: xp.sqrt(s), driver="lapack"):
    """sum(T1) + ln |T0| of the first step as the sources take it: with the first k values, however small."""
    t, log = trg.normalise(initial_tensor(beta, traced), traced)
    namespace = type("Namespace", (), vars(traced) | {"svd": lambda a: traced.svd(a, driver=driver)})
    return traced.sum(trg.coarse_grain(t, k, namespace, sqrt)) + log


@pytest.mark.parametrize("k", STEP)
@pytest.mark.parametrize("kind", ["traced", "eager"])
def test_a_step(k, kind):
    value, slope, tolerance = STEP[k]
    with traced.fold_extents():
        if kind == "eager":
            beta = traced.eager(0.3)
            y = step(beta, k)
            y.backward()
            found = y.value, beta.grad
        else:
            beta = traced.placeholder(())
            y = step(beta, k)
            found = traced.compile([y, traced.grad(y, beta)], [beta])(0.3)
    assert found[0] == pytest.approx(value, abs=1e-13)
    assert found[1] == pytest.approx(slope, abs=tolerance)


def test_a_step_that_keeps_an_exact_zero():
    beta = traced.placeholder(())
    with traced.fold_extents():
        y = step(beta, 4, driver="flush")
        with pytest.warns(traced.NonFiniteWarning):
            value, slope = traced.compile([y, traced.grad(y, beta)], [beta])(0.3)
        assert np.isfinite(value) and np.isnan(slope)
        y = step(beta, 4, safe_sqrt, driver="flush")
        found = traced.compile([y, traced.grad(y, beta)], [beta])(0.3)
    np.testing.assert_allclose(found, STEP[2][:2], atol=1e-13)


SUMS = {
    "first two": lambda s: traced.sqrt(s.take([0, 1], 0)).sum(),
    "safe": lambda s: safe_sqrt(s, xp=traced).sum(),
    "all": lambda s: traced.sqrt(s).sum(),
    "single where": lambda s: traced.where(s > 1e-14, traced.sqrt(s), 0.0).sum(),
}


@pytest.mark.parametrize("driver", ["lapack", "flush"])
@pytest.mark.parametrize("name", SUMS)
def test_roots_of_the_first_matrix(name, driver):
    """With exact zeros every root that is taken of them gives NaN, whatever eps is."""
    beta = traced.placeholder(())
    matrix = traced.reshape(initial_tensor(beta, traced), (4, 4))
    for eps in (1e-12, 1e-6):
        s = traced.svd(matrix, driver=driver, eps=eps)[1]
        y = SUMS[name](s)
        program = traced.compile([y, traced.grad(y, beta), s], [beta])
        if driver == "flush" and name in ("all", "single where"):
            with pytest.warns(traced.NonFiniteWarning):
                value, slope, values = program(0.3)
            assert value == pytest.approx(SQRT_2[0], abs=1e-8) and np.isnan(slope)
        else:
            value, slope, values = program(0.3)
            tolerance = 1e-13 if name in ("first two", "safe", "single where") else 5e-8  # roots of residues of 1e-17
            np.testing.assert_allclose((value, slope), SQRT_2, atol=tolerance)
        np.testing.assert_allclose(values, [2.3709304364845347, 1.2733071642964824, 0.0, 0.0], atol=EXACT)
        if driver == "flush":
            assert (values[2:] == 0.0).all() and np.signbit(values[2:]).all()
