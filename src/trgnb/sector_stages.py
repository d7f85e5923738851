"""The stages of ln Z by sectors whose programs an engine makes: initial tensor, plaquette, closing trace.

S and its signs are those of ``trgnb.sectors``.
"""

import itertools
from typing import NamedTuple

from trgnb import trg
from trgnb.blocks import blocks_of, parts, ranges

# Axes of the same tensor cut the other way: from (left, up, right, down) to (up, right, down, left) and back.
TO_UP_RIGHT, TO_LEFT_UP = (1, 2, 3, 0), (3, 0, 1, 2)


class First(NamedTuple):
    """The initial tensor: beta to the blocks of S = T, normalised, and the ln of its norm."""

    input_shape = ()

    def function(self, xp):
        def function(beta):
            t, log = trg.first_tensor(beta, xp)
            return blocks_of(xp.transpose(t, TO_LEFT_UP), (1, 1), (1, 1), xp), log

        return function


class Join(NamedTuple):
    """The plaquette: kept halves of S to the normalised blocks of the new one, and the ln of its norm.

    legs, kept: the (vertical, horizontal) legs before and after.  same: one set of eigenpairs serves both cuts.
    Input: (halves, signs): those of the (up, right) and of the (left, up) cut, and the signs of the legs.
    """

    legs: tuple
    kept: tuple
    same: bool

    @property
    def input_shape(self):
        (v, h), (a, b) = (map(sum, legs) for legs in (self.legs, self.kept))
        return ((v, h, a), (h, v, b))[: 1 if self.same else 2], ((v,), (h,))

    def function(self, xp):
        (v, h), (a, b) = self.legs, self.kept

        def function(x):
            halves, (sigma, tau) = x
            sigma, tau = ([signs[r] for r in ranges(leg)] for signs, leg in ((sigma, v), (tau, h)))

            def piece(half, *legs_and_parities):
                return half[tuple(ranges(leg)[p] for leg, p in legs_and_parities)]

            # Corners as in trg, w z a and z y b; those of y x c and x w d are the same two, turned.
            corners = {}
            for i, j, w in itertools.product((0, 1), repeat=3):
                one = piece(halves[0], (v, w), (h, w ^ j), (a, j))
                other = piece(halves[-1], (h, w ^ j), (v, w ^ i ^ j), (b, i))
                corners[i, j, w] = xp.einsum("wza,z,zyb->bawy", one, tau[w ^ j], other)

            def block(p):
                near, far = [], []
                for i, j in parts(p):
                    size = [(b[i] * a[j], v[w] * v[y]) for w, y in parts(p)]
                    turned = [xp.einsum("bayw,w,y->bawy", corners[i, j, y], sigma[w], sigma[y]) for w, y in parts(p)]
                    straight = [corners[i, j, w] for w, _ in parts(p)]
                    for rows, pieces in ((near, straight), (far, turned)):
                        rows.append(xp.concatenate([xp.reshape(t, s) for t, s in zip(pieces, size, strict=True)], 1))
                return xp.einsum("ik,jk->ij", xp.concatenate(far, 0), xp.concatenate(near, 0))

            even, odd = block(0), block(1)
            square = xp.sum(even * even) + xp.sum(odd * odd)
            norm = xp.sqrt(square)
            return (even / norm, odd / norm), xp.log(square) / 2.0

        return function


class Trace(NamedTuple):
    """The closing trace: (blocks, signs) to ln of sum_ij sigma_i tau_j S_ijij."""

    legs: tuple

    @property
    def input_shape(self):
        v, h = self.legs
        pairs = [sum(h[i] * v[j] for i, j in parts(p)) for p in (0, 1)]
        return tuple((n, n) for n in pairs), ((sum(v),), (sum(h),))

    def function(self, xp):
        def function(x):
            blocks, (sigma, tau) = x
            v, h = self.legs
            total = 0.0
            for p, block in enumerate(blocks):
                diagonal = xp.einsum("ii->i", block)
                signs = [xp.einsum("j,i->ji", tau[ranges(h)[j]], sigma[ranges(v)[i]]) for j, i in parts(p)]
                flat = xp.concatenate([xp.reshape(s, (h[j] * v[i],)) for s, (j, i) in zip(signs, parts(p), strict=True)], 0)
                total = total + xp.sum(diagonal * flat)
            return None, xp.log(total)

        return function
