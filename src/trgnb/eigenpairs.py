r"""Halves of a symmetric matrix from some of its eigenpairs, with derivatives that know the others.

S = Q diag(w) Q^T, and for the kept columns H = q_k diag(r), r = |w_k|^1/2.  With G = Q^T H', where H' is the cotangent of H::

    S' = Q X q_k^T,    X_ij = F_ij G_ij r_j,    F_ij = 1 / (w_kj - w_i),    X_jj = sign(w_j) G_jj / (2 r_j),

jj being where row and column are the same eigenpair.  A tangent dS turns the eigenvectors, dQ = Q Omega::

    dw = diag(P),    Omega_ij = P_ij / (w_j - w_i),    P = Q^T dS Q.

F has a row for every w: what is kept turns towards what is dropped.  1/x is broadened, zero at equal values: what dS does
to split them off the diagonal is dropped, as in ``trgnb.svd``.  In the TRG it has no such part, because equal values have
vectors of different symmetry.

Of a large matrix only the leading eigenpairs are computed, more than are kept; what lies beyond them comes in by a linear
equation for each kept one, (w_kj - S) z = r_j h'_j, which a series in S / w_kj solves.
"""

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from trgnb.svd import safe_sqrt
from trgnb.trg import NUMPY

# Relative to the largest value, near 1 for a tensor of norm 1: values nearer than this have no vectors of their own.
_WIDTH = 1e-12


# Below this many rows the full decomposition is as fast.
_LARGE = 256


def leading(s, count):
    """The ``count`` eigenvalues of largest size and their vectors, or all of them where that is no slower.

    s: symmetric matrix (n, n).  Returns w (m,), q (n, m) with m = count or n.

    >>> w, q = eigenpairs.leading(np.diag([2.0, -3.0, 1.0]), 1)
    >>> w.tolist()  # a small matrix: all of them
    [-3.0, 1.0, 2.0]
    """
    n = len(s)
    if n < _LARGE or 4 * count > n or count < 1 or not s.any():
        return np.linalg.eigh(s)
    # The same vectors every time, and others for the check, which must not be blind to the same ones.
    start, other = np.random.default_rng(0).standard_normal((2, n))
    try:
        w, q = eigsh(s, count, v0=start)
        rest = LinearOperator((n, n), lambda x: s @ x - q @ (w * (q.T @ x)), dtype=s.dtype)
        beyond = abs(eigsh(rest, 1, tol=1e-3, v0=other)[0][0])
    except ArpackError:
        return np.linalg.eigh(s)
    # A Krylov space may miss one of several equal values.
    return (w, q) if beyond <= np.abs(w).min() * (1.0 + 1e-2) else np.linalg.eigh(s)


class Eigenpairs:
    """Some eigenpairs of a symmetric matrix, and the half of it that they make.

    w (m,), q (n, m): eigenvalues and eigenvectors, as of ``numpy.linalg.eigh`` or ``leading``.  kept: positions of k of them.
    s: the matrix, if m < n; the kept ones must then be at least twice as large as what is not in w.

    >>> pairs = eigenpairs.Eigenpairs(*np.linalg.eigh(np.diag([4.0, -1.0])), kept=[1])
    >>> np.abs(pairs.half).tolist(), pairs.signs.tolist()
    ([[2.0], [0.0]], [1.0])
    """

    def __init__(self, w, q, kept, s=None):
        self.w, self.q, self.kept, self.s = w, q, kept, s
        self.columns = np.arange(len(kept))
        self.signs = np.where(w[kept] < 0.0, -1.0, 1.0)
        self.root = safe_sqrt(np.abs(w[kept]), xp=NUMPY)
        # of |w|^1/2 with respect to w, zero where the root is cut off
        self.slope = self.signs * np.divide(0.5, self.root, out=np.zeros_like(self.root), where=self.root > 0.0)
        self.gaps = _inverse(w[kept] - w[:, None])

    @property
    def half(self):
        """H (n, k)."""
        return self.q[:, self.kept] * self.root

    def pull(self, ct):
        """The cotangent of S for that of H."""
        g = self.q.T @ ct
        left = self.q @ self._coefficients(g)
        if self.s is not None:
            left += self._beyond((ct - self.q @ g) * self.root)
        return left @ self.q[:, self.kept].T

    def _beyond(self, b):
        """z (n, k) with w_kj z_j - S z_j = b_j, for b orthogonal to q: the series of b / w + S b / w^2 + ..."""
        # a root that is cut off makes b zero
        w = np.where(self.root > 0.0, self.w[self.kept], np.inf)
        term = b / w
        z = term.copy()
        for _ in range(_TERMS):
            term = self.s @ term / w
            term -= self.q @ (self.q.T @ term)  # rounding would grow along q
            z += term
            if np.abs(term).max(initial=0.0) <= 1e-17 * np.abs(z).max(initial=0.0):
                break
        return z

    def _coefficients(self, g):
        x = self.gaps * g * self.root
        x[self.kept, self.columns] = self.slope * g[self.kept, self.columns]
        return x

    def turn(self, ds):
        """(dw, Omega) for a tangent of S."""
        p = self.q.T @ ds @ self.q
        return np.diagonal(p), _inverse(self.w - self.w[:, None]) * p

    def half_tangent(self, turn):
        """The tangent of H."""
        dw, omega = turn
        dh = omega[:, self.kept] * self.root
        dh[self.kept, self.columns] = self.slope * dw[self.kept]
        return self.q @ dh

    def pull_tangent(self, turn, ct, dct):
        """The tangent of ``pull``."""
        dw, omega = turn
        g = self.q.T @ ct
        dg = self.q.T @ dct - omega @ g  # seen from the eigenvectors, which turn
        x, droot = self._coefficients(g), self.slope * dw[self.kept]
        dx = self.gaps * (dg * self.root + g * droot) - self.gaps**2 * (dw[self.kept] - dw[:, None]) * g * self.root
        same = self.kept, self.columns
        # (1 / 2r)' = -r' / 2r^2
        dx[same] = self.slope * (dg[same] - 2.0 * self.signs * self.slope * droot * g[same])
        return self.q @ ((omega @ x + dx) @ self.q[:, self.kept].T + x @ (self.q @ omega[:, self.kept]).T)


# 2^-60 is below the last digit.
_TERMS = 60


def _inverse(x):
    """1/x, broadened."""
    return x / (x * x + _WIDTH**2)
