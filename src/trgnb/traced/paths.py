"""Reverse mode without sharing, kept to show what it costs.

A transform that follows every use of a tensor by itself, instead of first adding up the cotangents of all uses, is
right, and visits a node once for every path that leads from y to it.  In a chain of steps the paths multiply.
"""

from typing import NamedTuple

import numpy as np

from trgnb.traced.graph import Traced
from trgnb.traced.transform import active_nodes, check_scalar, only, zeros_like


class LimitError(RuntimeError):
    """The transform without sharing would apply more rules than allowed."""


class RuleCalls(NamedTuple):
    """How many derivative rules a gradient applies, with and without sharing."""

    shared: int
    unshared: int


def rule_calls(y, x):
    """Count the rules that ``grad`` and ``unshared_grad`` of y with respect to x apply, by counting paths: in linear time.

    >>> x = y = traced.placeholder(())
    >>> for _ in range(3):
    ...     y = y * y
    >>> paths.rule_calls(y, x)
    RuleCalls(shared=6, unshared=14)
    """
    check_scalar("rule_calls", y, [x])
    nodes, active = active_nodes([y], [x])
    paths, shared, unshared = {y.key: 1}, 0, 0
    for node in reversed(nodes):
        here = sum(paths.get(out.key, 0) for out in node.outputs)
        if here:
            for source in node.inputs:
                if source.key in active:
                    paths[source.key] = paths.get(source.key, 0) + here
                    shared, unshared = shared + 1, unshared + here
    return RuleCalls(shared, unshared)


def unshared_grad(y, x, limit=50_000):
    """The gradient of the real scalar y with respect to the tensor x, every path from y to x on its own.

    limit: number of rules after which it gives up.
    Errors: LimitError, which says how many there would be.

    >>> x = traced.placeholder(())
    >>> traced.compile([paths.unshared_grad(x * x, x)], [x])(3.0)[0].tolist()
    6.0
    """
    check_scalar("unshared_grad", y, [x])
    _, active = active_nodes([y], [x])
    applied, total = 0, None
    pending = [(y, Traced.constant(np.ones((), y.dtype)))]
    while pending:
        z, ct = pending.pop()
        if z.key == x.key:
            total = ct if total is None else total + ct
            continue
        incoming = [ct if out.key == z.key else None for out in z.node.outputs]
        for i, source in enumerate(z.node.inputs):
            if source.key in active:
                applied += 1
                if applied > limit:
                    raise LimitError(f"{limit} rules applied, of {rule_calls(y, x).unshared}: without sharing they grow with every path")
                pending.append((source, z.node.op.vjp(z.node, only(incoming), i)))
    return zeros_like(x) if total is None else total
