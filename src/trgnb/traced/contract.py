"""einsum and the identity: contractions, with paths planned once for each set of shapes."""

from functools import lru_cache
from string import ascii_letters

import numpy as np
from opt_einsum import contract_expression

from trgnb.traced.elementwise import to_common_dtype
from trgnb.traced.extents import extent, known, same, shown
from trgnb.traced.graph import Op, Tensor, apply, as_array
from trgnb.traced.shapes import broadcast_to, reshape, transpose


@lru_cache(maxsize=1024)
def planned(spec, shapes):
    """The contraction of a spec for arrays of these shapes, its path planned."""
    return contract_expression(spec, *shapes)


def _labels(spec):
    inputs, output = spec.split("->")
    return inputs.split(","), output


def extents_of(spec, operands):
    """The extent of every label of a spec; ValueError where two axes of a label differ."""
    inputs, _ = _labels(spec)
    extents = {}
    for labels, x in zip(inputs, operands, strict=True):
        for label, e in zip(labels, x.shape, strict=True):
            if not same(extents.setdefault(label, e), e):
                raise ValueError(
                    f"einsum {spec!r} got shapes {', '.join(shown(x.shape) for x in operands)}: the extents of {label!r}, "
                    f"{extents[label]!r} and {e!r}, must be equal"
                )
    return extents


def _infer(*operands, spec):
    extents = extents_of(spec, operands)
    return [(tuple(extents[label] for label in _labels(spec)[1]), operands[0].dtype)]


def _vjp(node, ct, i):
    """The cotangent of operand i: the contraction of ct with the other operands.

    An axis that the operand alone has was summed: its cotangent is repeated.  A label that an operand has twice
    is a diagonal: its cotangent lies on the diagonal, a product with an identity.
    """
    spec, x = node.params["spec"], node.inputs[i]
    inputs, output = _labels(spec)
    unused = iter(c for c in ascii_letters if c not in spec)
    wanted, identities = "", []
    for label in inputs[i]:
        fresh = next(unused) if label in wanted else label
        if fresh != label:
            identities.append((label + fresh, identity(x.shape[inputs[i].index(label)], ct.dtype, like=x)))
        wanted += fresh
    others = [(labels, y) for j, (labels, y) in enumerate(zip(inputs, node.inputs, strict=True)) if j != i]
    factors = [(output, ct), *others, *identities]
    present = set("".join(labels for labels, _ in factors))
    kept = "".join(label for label in wanted if label in present)
    dx = einsum(",".join(labels for labels, _ in factors) + "->" + kept, *(y for _, y in factors))
    if kept != wanted:
        dx = reshape(dx, [e if label in kept else 1 for label, e in zip(wanted, x.shape, strict=True)])
    return broadcast_to(dx, x.shape)


EINSUM = Op(
    "einsum", _infer, lambda *arrays, spec: planned(spec, tuple(x.shape for x in arrays))(*arrays),
    vjp=_vjp, multilinear=True,
)  # fmt: skip

IDENTITY = Op(
    "identity", lambda n, dtype: [((n, n), np.dtype(dtype))], lambda n, dtype: np.eye(n, dtype=np.dtype(dtype)),
    differentiable=False,
)  # fmt: skip


def einsum(spec, *operands):
    """Contract tensors: einsum("ij,jk->ik", a, b), with letters and, like NumPy, an output that may be left out.

    The order of the contractions is planned once for each set of shapes (opt_einsum).

    >>> traced.einsum("ii->", traced.eager(np.eye(3)))
    Eager(float64[], 3.)
    """
    operands = [x if isinstance(x, Tensor) else as_array(x) for x in operands]
    text = spec.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    letters = "".join(terms)
    if not all(c.isalpha() and c.isascii() for c in letters + output):
        raise ValueError(f"einsum takes letters, commas and ->, got {spec!r}; write an ellipsis as the axes it stands for")
    if not arrow:
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(set(output)) < len(output) or not set(output) <= set(letters):
        raise ValueError(f"einsum got the output {output!r} of {spec!r}: it needs letters of the inputs, each once")
    if len(terms) != len(operands) or any(len(t) != x.ndim for t, x in zip(terms, operands, strict=True)):
        raise ValueError(f"einsum {spec!r} does not fit the shapes {', '.join(shown(x.shape) for x in operands)}: a letter an axis")
    if len(operands) == 1 and len(set(letters)) == len(letters) == len(output):  # nothing but an order of axes
        return transpose(operands[0], [letters.index(c) for c in output])
    return apply(EINSUM, *to_common_dtype(*operands), spec=f"{inputs}->{output}")


def matmul(a, b):
    """a @ b for vectors and matrices.

    >>> traced.matmul(traced.eager([[1.0, 2.0]]), [3.0, 4.0])
    Eager(float64[1], [11.])
    """
    a, b = (x if isinstance(x, Tensor) else as_array(x) for x in (a, b))
    if not {a.ndim, b.ndim} <= {1, 2}:
        raise ValueError(f"@ takes vectors and matrices, got {shown(a.shape)} and {shown(b.shape)}; use einsum for others")
    return einsum(f"{'ij'[2 - a.ndim:]},{'jk'[:b.ndim]}->{'i'[:a.ndim - 1]}{'k'[:b.ndim - 1]}", a, b)


def identity(n, dtype, like):
    """The identity matrix of extent n; like: a tensor of the kind, traced or eager, that is wanted."""
    n = extent(n)
    if known(n) is not None:
        return type(like).constant(np.eye(known(n), dtype=dtype))
    return type(like).bind(IDENTITY, (), {"n": n, "dtype": np.dtype(dtype).name})[0]
