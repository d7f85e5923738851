r"""The tensor renormalization group: one step, the schedule of bond dimensions, ln Z.

One step replaces T (four legs of dimension d) by T' (four legs of dimension k) on a lattice of half as
many tensors, turned by 45 degrees (Levin and Nave, Phys. Rev. Lett. 99, 120601 (2007)).  Tensors are
carried normalised, |T| = 1 in the Frobenius norm, and normalised at the *end* of a step, so that the
decomposition at its start sees the very bits that were stored: a step that is recomputed for the
backward pass then finds the same singular vectors.

The step is written against a small array namespace ``xp`` (einsum, reshape, transpose, sqrt, log, sum,
where, svd), ``JAX`` below being one.
"""

import operator
from functools import lru_cache, partial
from types import SimpleNamespace

import numpy as np
from jax import numpy as jnp

from trgnb.ising import BETA_CRITICAL, initial_tensor
from trgnb.svd import safe_sqrt, svd

JAX = SimpleNamespace(
    einsum=jnp.einsum,
    reshape=jnp.reshape,
    transpose=jnp.transpose,
    concatenate=jnp.concatenate,
    sqrt=jnp.sqrt,
    log=jnp.log,
    sum=jnp.sum,
    where=jnp.where,
    cosh=jnp.cosh,
    sinh=jnp.sinh,
    svd=svd,
)
"""The array namespace of the JAX engine."""

NUMPY = SimpleNamespace(
    einsum=partial(np.einsum, optimize=True),
    reshape=np.reshape,
    transpose=np.transpose,
    concatenate=np.concatenate,
    sqrt=np.sqrt,
    log=np.log,
    sum=np.sum,
    where=np.where,
    cosh=np.cosh,
    sinh=np.sinh,
    svd=partial(np.linalg.svd, full_matrices=False),
)
"""The array namespace of plain NumPy, for values that may not be traced."""


def normalise(t, xp=JAX):
    """Return (T / |T|, ln |T|) in the Frobenius norm, for a tensor of any shape.

    >>> t, log_norm = trg.normalise(np.ones((2, 2)), trg.NUMPY)
    >>> t.tolist(), round(float(log_norm), 6)
    ([[0.5, 0.5], [0.5, 0.5]], 0.693147)
    """
    square = xp.sum(t * t)
    return t / xp.sqrt(square), xp.log(square) / 2.0


def split(matrix, k, xp=JAX, sqrt=safe_sqrt):
    """Write a matrix (m, n) as A @ B with the k largest singular values: A (m, k), B (k, n).

    sqrt(s) goes to both sides.  sqrt: function of (s, xp=...) used for it; the default drops values of
    at most 1e-14, which are rounding residues of structural zeros and would give infinite derivatives.

    >>> a, b = trg.split(np.diag([4.0, 1.0]), 1, trg.NUMPY)
    >>> a.shape, b.shape, bool(np.allclose(a @ b, np.diag([4.0, 0.0])))
    ((2, 1), (1, 2), True)
    """
    u, s, vh = xp.svd(matrix)
    root = sqrt(s[:k], xp=xp)
    return u[:, :k] * root, xp.reshape(root, (k, 1)) * vh[:k, :]


# At the critical point rounding residues of structural zeros lie below 1e-15, the structural values of
# the first five steps above 1e-5.
_RANK_TOLERANCE = 1e-12

# Legs (up, right, down, left); w, x, y, z are the inner bonds of the plaquette, the corners being
# A1 south-west, B1 south-east, A2 north-east, B2 north-west of its centre.
_PLAQUETTE = "wza,zyb,cyx,dxw->cbad"


def coarse_grain(t, k, xp=JAX, sqrt=safe_sqrt):
    """One TRG step without the norm: T (d, d, d, d) -> T' (k, k, k, k).

    Legs of T_ijkl run around the site (up, right, down, left).  Two ways to cut it in half, each an SVD
    truncated to k values, and the four corners around a plaquette contracted::

        T_ijkl = A1_(ij)a A2_a(kl)     cut between (up, right) and (down, left)
        T_ijkl = B1_(li)b B2_b(jk)     cut between (left, up) and (right, down)

    Source: Levin and Nave (2007).

    >>> trg.coarse_grain(ising.initial_tensor(0.3, np), 3, trg.NUMPY).shape
    (3, 3, 3, 3)
    """
    d = t.shape[0]
    a1, a2 = split(xp.reshape(t, (d * d, d * d)), k, xp, sqrt)
    b1, b2 = split(xp.reshape(xp.transpose(t, (3, 0, 1, 2)), (d * d, d * d)), k, xp, sqrt)
    corners = [
        xp.reshape(a1, (d, d, k)),  # up right a
        xp.reshape(b1, (d, d, k)),  # left up b
        xp.reshape(a2, (k, d, d)),  # a down left
        xp.reshape(b2, (k, d, d)),  # b right down
    ]
    return xp.einsum(_PLAQUETTE, *corners)


def step(t, k, xp=JAX):
    """One TRG step on a normalised tensor: (T' / |T'|, ln |T'|) with T' = coarse_grain(t, k).

    >>> t, log_norm = trg.step(trg.first_tensor(0.3, trg.NUMPY)[0], 2, trg.NUMPY)
    >>> t.shape, round(float(np.linalg.norm(t)), 6)
    ((2, 2, 2, 2), 1.0)
    """
    return normalise(coarse_grain(t, k, xp), xp)


def log_trace(t, xp=JAX):
    """ln of the partition function of one tensor closed on itself, ln sum_ij T_ijij.

    >>> t = ising.initial_tensor(0.3, np)  # one spin: ln(2 exp(2 beta))
    >>> round(float(trg.log_trace(t, trg.NUMPY)), 6)
    1.293147
    """
    return xp.log(xp.einsum("ijij->", t))


def first_tensor(beta, xp=JAX):
    """The normalised initial tensor and ln |T_0| at inverse temperature beta.

    >>> t, log_norm = trg.first_tensor(0.3, trg.NUMPY)
    >>> bool(np.allclose(t * np.exp(log_norm), ising.initial_tensor(0.3, np)))
    True
    """
    return normalise(initial_tensor(beta, xp), xp)


def check_schedule(schedule):
    """Return the schedule as a tuple of ints, or raise ValueError that says what is allowed."""
    try:
        ks = tuple(operator.index(k) for k in schedule)
    except TypeError:
        raise ValueError(f"schedule must be a sequence of whole numbers, one k per step, got {schedule!r}") from None
    if not ks:
        raise ValueError("schedule must have at least one step, got an empty one")
    d = 2
    for n, k in enumerate(ks):
        if not 1 <= k <= d * d:
            raise ValueError(
                f"schedule[{n}] = {k} is not possible: step {n} decomposes a {d * d} x {d * d} matrix, "
                f"so k must be between 1 and {d * d}"
            )
        d = k
    return ks


def schedule(chi=16, steps=20):
    """Bond dimensions k of the steps: the structural rank of the matrix of each step, capped at chi.

    The rank is counted once, from the singular values of a run at the critical point, and is the same
    for every beta: 2, 4, 4, 16, 16, 256, ... as long as nothing is cut.  Keeping more only keeps
    rounding residues of structural zeros.
    chi: bond dimension, >= 2.  steps: number of TRG steps N, >= 1, for 2**N spins.
    Returns a tuple of ``steps`` ints.
    Errors: ValueError for chi < 2 or steps < 1.

    >>> trgnb.schedule(chi=16, steps=6)
    (2, 4, 4, 16, 16, 16)
    """
    chi, steps = _check_count("chi", chi, 2), _check_count("steps", steps, 1)
    return _structural_ranks(chi, steps)


def _check_count(name, value, least):
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return count


@lru_cache
def _structural_ranks(chi, steps):
    # In NumPy: the schedule is wanted as numbers while a caller's jit is tracing.
    t, _ = first_tensor(BETA_CRITICAL, NUMPY)
    ks = []
    while True:
        d = t.shape[0]
        s = np.linalg.svd(np.reshape(t, (d * d, d * d)), compute_uv=False)
        ks.append(min(int(np.sum(s > _RANK_TOLERANCE * s[0])), chi))
        # Once a step takes dimension chi to chi, every further one does.
        if len(ks) == steps or ks[-2:] == [chi, chi]:
            return tuple(ks) + (chi,) * (steps - len(ks))
        t, _ = step(t, ks[-1], NUMPY)


def weights(steps):
    """Weight of each ln in ln Z per spin: 2^-n for ln |T_n|, n = 0..N, then 2^-N for the trace.

    T_n stands for 2^n of the 2^N tensors of the lattice and occurs 2^(N-n) times.  The weights are powers of
    two, so they cost no rounding.

    >>> trg.weights(3)
    (1.0, 0.5, 0.25, 0.125, 0.125)
    """
    return (*(2.0**-n for n in range(steps + 1)), 2.0**-steps)


def unrolled_lnz(beta, ks, step=step):
    r"""ln Z per spin by a Python loop over the steps, an ordinary JAX function of beta.

    ln Z/N = sum_{n=0}^{N} 2^-n ln |T_n| + 2^-N ln tr T_N / |T_N|, with N = len(ks) steps.
    beta: inverse temperature J / k_B T, a float64 scalar.  ks: the schedule.
    step: the step function, (t, k) -> (t', ln |t'|).

    >>> round(float(trg.unrolled_lnz(0.3, (2, 4))), 6)  # exact: nothing is cut
    0.883259
    """
    w = weights(len(ks))
    t, log_norm = first_tensor(beta)
    total = w[0] * log_norm
    for n, k in enumerate(ks, start=1):
        t, log_norm = step(t, k)
        total = total + w[n] * log_norm
    return total + w[-1] * log_trace(t)
