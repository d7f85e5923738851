"""Random programs on the traced library and on JAX: equal values and gradients, whatever is put together."""

from collections import Counter

import hypothesis
import jax
import numpy as np
from hypothesis import strategies as st
from jax import numpy as jnp
from test_traced_rules import JAX, OURS, all_ops, has_derivative, random_array, size

from trgnb import traced
from trgnb.traced.graph import CONSTANT, Traced, record

# what only the rules of other ops apply
INTERNAL = {"lower", "extend"}
TABLE = np.cos(np.arange(9.0)).reshape(3, 3)


def squash(xp, a):
    """Into (-1, 1), so that no program leaves the range in which it is well conditioned."""
    return a / xp.sqrt(a * a + 1.0)


def svd(xp, a, b):
    """The singular values are 6, 3 and 1 within 0.6."""
    u, s, vh = xp.svd(0.2 * squash(xp, a) + np.diag([6.0, 3.0, 1.0]))
    return (u * (s / (s + 1.0)) @ vh) * b


def projector(xp, a, b):
    u, s, vh = xp.svd(0.2 * squash(xp, a) + np.diag([6.0, 3.0, 1.0]))
    return u * np.array([1.0, 0.0, 0.5]) @ u.T + 0.1 * (vh.T * s @ vh)


def qr(xp, a, b):
    q, r = xp.qr(squash(xp, a) + 4.0 * np.eye(3))
    return (q @ (r * TABLE)) * 0.2 + q * np.array([1.0, 2.0, 3.0]) @ q.T


def eigh(xp, a, b):
    """The eigenvalues are 1, 3 and 6 within 0.6."""
    w, v = xp.eigh(0.1 * squash(xp, a + a.T) + np.diag([1.0, 3.0, 6.0]))
    return v * xp.sqrt(w) @ v.T - v * np.array([1.0, 0.0, 0.0]) @ v.T


def complex_product(xp, a, b):
    c = xp.convert(squash(xp, a), "complex128") + 1j * b
    return xp.real(c * xp.conj(c * (1.0 + 2.0j)) + c * c)


def truncated_sum(xp, a, b):
    return xp.sum(xp.dynamic_truncate(a.reshape(9), 4, 0)) * 0.25 + b


# (namespace, a, b) -> c, all of them (3, 3)
STEPS = {
    "add": lambda xp, a, b: (a + b) * 0.5,
    "sub": lambda xp, a, b: a - 0.5 * b,
    "mul": lambda xp, a, b: squash(xp, a) * b,
    "div": lambda xp, a, b: a / (1.0 + b * b),
    "neg": lambda xp, a, b: -a,
    "sqrt": lambda xp, a, b: xp.sqrt(a * a + 1.0),
    "log": lambda xp, a, b: xp.log(a * a + 1.0) - b,
    "exp": lambda xp, a, b: xp.exp(-a * a) * b,
    "cosh": lambda xp, a, b: xp.cosh(squash(xp, a)),
    "sinh": lambda xp, a, b: xp.sinh(squash(xp, a)),
    "abs": lambda xp, a, b: xp.absolute(a - TABLE) - b,
    "lorentz": lambda xp, a, b: xp.lorentz(a * a + 1.0),
    "complex": complex_product,
    "where": lambda xp, a, b: xp.where(a > TABLE, a - TABLE, b * (a - TABLE)),
    "reshape": lambda xp, a, b: a.reshape(3, 1, 3).transpose(2, 1, 0).reshape(3, 3) + b.reshape(9)[None, 4],
    "transpose": lambda xp, a, b: a.T,
    "broadcast": lambda xp, a, b: a[0] + b[:, :1],
    "sum": lambda xp, a, b: a - xp.sum(b, 0) * 0.3 + xp.sum(a, (0, 1)) * 0.1,
    "slice, pad": lambda xp, a, b: xp.pad(a[1:, ::2], (1, 0), (0, 0), (0, 1)) - b,
    "concatenate": lambda xp, a, b: xp.concatenate([a[1:], squash(xp, b)[:1]], 0),
    "take": lambda xp, a, b: xp.take(a, [2, 0, 2], 1),
    "scatter": lambda xp, a, b: xp.scatter(a, [1, 1, 2], 0, 3) + b,
    "truncate": truncated_sum,
    "matmul": lambda xp, a, b: squash(xp, a) @ b * 0.5,
    "three": lambda xp, a, b: xp.einsum("ij,kj,kl->il", squash(xp, a), squash(xp, b), a) * 0.3,
    "diagonal": lambda xp, a, b: xp.einsum("ii,jk->kj", squash(xp, a), b) * 0.3,
    "sum alone": lambda xp, a, b: xp.einsum("ij,kl->jk", squash(xp, a), b) * 0.1,
    "solve": lambda xp, a, b: xp.solve(squash(xp, a) + 4.0 * np.eye(3), b),
    "svd": svd,
    "projector": projector,
    "qr": qr,
    "eigh": eigh,
}


def function(steps, xp, x, z):
    """Two inputs, then each step applied to two of the last results; a number that depends on all of them."""
    tensors = [x, z]
    for name, i, j in steps:
        tensors.append(STEPS[name](xp, tensors[-1 - i % len(tensors)], tensors[-1 - j % len(tensors)]))
    rest = sum(tensors[1:-1], tensors[0])
    return xp.sum(tensors[-1] * TABLE) + 0.1 * xp.sum(rest)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * size(np.asarray(expected)))


programs = st.tuples(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=9),
    st.integers(0, 1000),
)


def test_random_programs(monkeypatch):
    """Here a constant is a node of its own each time it is written, as on a tape: eager bits are compared with these.

    (An expression of constants that is written twice is one node of a graph, and two entries on a tape; gradients are
    then sums in another order.)
    """

    def constant(array):
        return record(CONSTANT, (), {"array": array}, object())[0]

    monkeypatch.setattr(Traced, "constant", staticmethod(constant))
    occurred, count = Counter(), 0

    @hypothesis.settings(derandomize=True, deadline=None, max_examples=200, database=None)
    @hypothesis.given(programs)
    def check(program):
        nonlocal count
        steps, seed = program
        values = [random_array((3, 3), "float64", seed + i) for i in range(2)]
        direction = [random_array((3, 3), "float64", seed + i) for i in range(2, 4)]

        xs = [traced.placeholder((3, 3)) for _ in values]
        y = function(steps, OURS, *xs)
        compiled = traced.compile([y, *traced.grad(y, xs), traced.jvp(y, xs, direction)], xs)
        value, *gradients, tangent = compiled(*values)
        occurred.update({node.op.name for node in traced.graph.ancestors([y])})
        count += 1

        expected = jax.value_and_grad(lambda *x: function(steps, JAX, *x), (0, 1))(*map(jnp.asarray, values))
        close(value, expected[0])
        close(gradients, expected[1])
        close(tangent, sum(np.sum(g * d) for g, d in zip(gradients, direction, strict=True)))

        leaves = [traced.eager(a) for a in values]
        result = function(steps, OURS, *leaves)
        result.backward()
        assert result.value == value  # bit for bit
        for leaf, gradient in zip(leaves, gradients, strict=True):
            np.testing.assert_array_equal(leaf.grad, gradient)

    check()
    assert count >= 200
    assert not {name for name, op in all_ops().items() if has_derivative(op)} - occurred.keys() - INTERNAL
    assert min(occurred.values()) >= 5
