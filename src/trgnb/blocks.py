"""Blocks of Z2-even tensors: what is not zero, and how it is cut.

The indices of a leg are sorted, even ones first; leg = (number of even ones, number of odd ones).  A matrix of pairs of
legs falls into an even and an odd block, and the pairs of parity p are those of parities (0, p), then (1, 1 - p).
"""

import numpy as np


def parts(p):
    """The parities of the two legs of the pairs of parity p."""
    return (0, p), (1, 1 - p)


def ranges(leg):
    """The ranges of the even and of the odd indices of a leg."""
    even, odd = leg
    return slice(0, even), slice(even, even + odd)


def blocks_of(t, first, second, xp):
    """The even and odd block of an even tensor with legs (first, second, first, second), cut in the middle."""
    legs = first, second, first, second

    def piece(*parities):
        m, n, k, l = (leg[p] for leg, p in zip(legs, parities, strict=True))
        return xp.reshape(t[tuple(ranges(leg)[p] for leg, p in zip(legs, parities, strict=True))], (m * n, k * l))

    def block(p):
        rows = [xp.concatenate([piece(*row, *column) for column in parts(p)], 1) for row in parts(p)]
        return xp.concatenate(rows, 0)

    return block(0), block(1)


def pieces_of(block, p, first, second):
    """The rows of a block (pairs, k) of parity p as arrays (first, second, k), with the parities of the two legs."""
    split = first[0] * second[p]
    for rows, (i, j) in zip((block[:split], block[split:]), parts(p), strict=True):
        yield (i, j), rows.reshape(first[i], second[j], block.shape[1])


def half_tensor(blocks, first, second):
    """The array (first, second, k) of an even and an odd half (pairs, k), in NumPy."""
    kept = tuple(block.shape[1] for block in blocks)
    t = np.zeros((sum(first), sum(second), sum(kept)))
    for p, block in enumerate(blocks):
        for (i, j), piece in pieces_of(block, p, first, second):
            t[ranges(first)[i], ranges(second)[j], ranges(kept)[p]] = piece
    return t


def half_blocks(t, first, second, kept):
    """The even and odd half of such an array."""
    a, b, c = map(ranges, (first, second, kept))
    return [np.concatenate([t[a[i], b[j], c[p]].reshape(first[i] * second[j], kept[p]) for i, j in parts(p)]) for p in (0, 1)]


def tensor_of(blocks, first, second):
    """The tensor with legs (first, second, first, second) of two blocks, in NumPy: the inverse of ``blocks_of``."""
    t = np.zeros([sum(leg) for leg in (first, second) * 2])
    a, b = ranges(first), ranges(second)
    for p, block in enumerate(blocks):
        for (i, j), rows in pieces_of(block, p, first, second):
            m, n, size = rows.shape
            for (k, l), piece in pieces_of(rows.reshape(m * n, size).T, p, first, second):
                t[a[i], b[j], a[k], b[l]] = np.moveaxis(piece, 2, 0).reshape(m, n, *piece.shape[:2])
    return t
