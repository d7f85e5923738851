"""A small traced tensor library on NumPy: graphs with symbolic extents, their derivatives, programs, eager tensors.

Write a function with ``trgnb.traced`` as its array namespace, differentiate the graph, compile, run::

    x = traced.placeholder((4, 4))
    u, s, vh = x.svd()
    y = s.reshape(4)[:2].sum()
    program = traced.compile([y, traced.grad(y, x)], [x])
    value, gradient = program(numpy_array)

The modules in the order of their making: extents, graph, the ops (dynamic, shapes, elementwise, contract, matrices, svd, qr,
eigh), transform, program, tensor, eager.  Semantics follow the traced graphs of tenferro-rs 0.8.0.
"""

from trgnb.traced.concatenate import concatenate
from trgnb.traced.contract import einsum, matmul
from trgnb.traced.dynamic import dynamic_truncate
from trgnb.traced.eager import CacheStats, backward, cache_stats, clear_cache, eager
from trgnb.traced.eigh import eigh
from trgnb.traced.elementwise import (
    absolute, add, compare, conj, convert, cosh, div, exp, log, lorentz, mul, neg, real, sinh, sqrt, sub, where,
)  # fmt: skip
from trgnb.traced.extents import Const, Min, Sym, UpperBound
from trgnb.traced.graph import DerivativeError, Tensor
from trgnb.traced.matrices import adjoint, solve
from trgnb.traced.program import NonFiniteWarning, Program, compile
from trgnb.traced.qr import qr
from trgnb.traced.settings import fold_extents, pad_truncated
from trgnb.traced.shapes import broadcast_to, pad, reshape, scatter, slice_axis, take, transpose
from trgnb.traced.shapes import total as sum
from trgnb.traced.svd import svd, svd_full
from trgnb.traced.tensor import placeholder
from trgnb.traced.transform import grad, jvp, vjp

__all__ = [
    "CacheStats", "Const", "DerivativeError", "Min", "NonFiniteWarning", "Program", "Sym", "Tensor", "UpperBound",
    "absolute", "add", "adjoint", "backward", "broadcast_to", "cache_stats", "clear_cache", "compare", "compile", "concatenate", "conj",
    "convert", "cosh", "div", "dynamic_truncate", "eager", "eigh", "einsum", "exp", "fold_extents", "grad", "jvp", "log",
    "lorentz", "matmul", "mul", "neg", "pad", "pad_truncated", "placeholder", "qr", "real", "reshape", "scatter", "sinh",
    "slice_axis", "solve", "sqrt", "sub", "sum", "svd", "svd_full", "take", "transpose", "vjp", "where",
]  # fmt: skip
