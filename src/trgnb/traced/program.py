"""Programs: the part of a graph between inputs and outputs, as a list of calls of NumPy."""

import warnings
from collections import Counter
from functools import partial

import numpy as np

from trgnb.traced.contract import EINSUM, planned
from trgnb.traced.extents import EXTENTS, Sym, UpperBound, evaluate, extents_in, known, replace_extents, shown, symbols
from trgnb.traced.graph import CONSTANT, PLACEHOLDER, Traced, ancestors


class NonFiniteWarning(RuntimeWarning):
    """A program returns NaN or infinity; the message names the op that made it.

    >>> x = traced.placeholder(())
    >>> with warnings.catch_warnings(action="error"):
    ...     traced.compile([x.log()], [x])(0.0)
    Traceback (most recent call last):
        ...
    trgnb.traced.program.NonFiniteWarning: result 0 is not finite; ...
    """


class Program:
    """Compiled outputs of a graph: a function of arrays, made by ``compile``.

    program(*arrays) -> list of NumPy arrays, one for each output.  It may be called from several threads.
    op_count: number of ops that a call runs.  counts: the same by the name of the op.

    str(program) lists the ops; flowchart() draws them.

    >>> x = traced.placeholder((2,))
    >>> print(traced.compile([(x * x).sum()], [x]))
    inputs   %1: float64[2]
    %2: float64[2] = mul(%1, %1)
    %3: float64[] = sum(%2, axes=(0,))
    outputs  %3
    """

    def __init__(self, outputs, inputs):
        self.outputs, self.inputs = tuple(outputs), tuple(inputs)
        nodes = ancestors(self.outputs, stop=self.inputs)
        for node in nodes:
            if node.op is PLACEHOLDER:
                raise ValueError(
                    f"compile: the outputs depend on the placeholder {node.outputs[0]!r}, which is not among the "
                    f"{len(self.inputs)} inputs; add it"
                )
        self._check_symbols(nodes)
        constants = [node for node in nodes if node.op is CONSTANT]
        self.nodes = [node for node in nodes if node.op is not CONSTANT]
        tensors = [*self.inputs, *(y for node in (*constants, *self.nodes) for y in node.outputs)]
        # slot 0 holds the bindings of symbols and computed lengths
        self._slots = {x.key: n for n, x in enumerate(tensors, start=1)}
        self._constants = [node.params["array"] for node in constants]
        self._calls = [self._call(node) for node in self.nodes]
        self._free_at = self._last_uses()

    op_count = property(lambda self: len(self.nodes))
    counts = property(lambda self: Counter(node.op.name for node in self.nodes))

    @property
    def constant_bytes(self):
        """Bytes of the constants that the program holds."""
        return sum(array.nbytes for array in self._constants)

    def _check_symbols(self, nodes):
        bound = {e for x in self.inputs for e in x.shape}
        used = {s for node in nodes for p in node.params.values() for e in extents_in(p) for s in symbols(e)}
        used |= {s for x in self.inputs for e in x.shape for s in symbols(e)}
        if not used <= bound:
            raise ValueError(
                f"compile: {', '.join(map(repr, sorted(used - bound, key=repr)))} is not the extent of an axis of any input, "
                f"so a call could not know it; the inputs are {', '.join(map(repr, self.inputs))}"
            )

    def _call(self, node):
        """(kernel, slots of its arguments, slots of its outputs) of a node."""
        arguments = [self._slots[x.key] for x in node.inputs]
        unknown = {e for p in node.params.values() for e in extents_in(p) if known(e) is None}
        if unknown:
            lengths = [self._slots[x.key] for x in node.lengths]
            kernel, arguments = partial(_run_with_lengths, node), [0, *lengths, *arguments]
        else:
            kernel = partial(node.op.kernel, **_numbers(node.params, {}))
            if node.op is EINSUM and all(x.concrete_shape is not None for x in node.inputs):
                kernel = planned(node.params["spec"], tuple(x.concrete_shape for x in node.inputs))
        return kernel, tuple(arguments), tuple(self._slots[y.key] for y in node.outputs)

    def _last_uses(self):
        """For each call, the slots that nothing reads after it."""
        kept, seen, free = {self._slots[y.key] for y in self.outputs}, {0}, []
        for _, arguments, results in reversed(self._calls):
            last = {s for s in (*arguments, *results) if s not in seen}
            seen |= last
            free.append(tuple(last - kept))
        return free[::-1]

    def __call__(self, *arrays):
        values = self._start(arrays)
        with np.errstate(all="ignore"):
            for node, (kernel, arguments, results), free in zip(self.nodes, self._calls, self._free_at, strict=True):
                try:
                    result = kernel(*[values[a] for a in arguments])
                except Exception as error:
                    error.add_note(f"in {self._line(node)}")
                    raise
                if len(results) == 1:
                    values[results[0]] = result
                else:
                    for slot, part in zip(results, result, strict=True):
                        values[slot] = part
                for slot in free:
                    values[slot] = None
        results = self._results(values)
        if not all(np.isfinite(y).all() for y in results):
            warnings.warn(self._blame(arrays, results), NonFiniteWarning, stacklevel=2)
        return results

    def _start(self, arrays):
        """The slots before the first call: bindings, inputs, constants, and room for the rest."""
        if len(arrays) != len(self.inputs):
            raise TypeError(f"the program takes {len(self.inputs)} inputs, got {len(arrays)}: {self._signature()}")
        bindings, inputs = _as_inputs(self.inputs, arrays)
        values = [None] * (len(self._slots) + 1)
        values[0] = bindings
        values[1 : len(inputs) + 1] = inputs
        values[len(inputs) + 1 : len(inputs) + 1 + len(self._constants)] = self._constants
        return values

    def _results(self, values):
        """The outputs, none of which shares memory with another one, an input or a constant."""
        results, taken = [], set(range(len(self.inputs) + len(self._constants) + 1))
        for y in self.outputs:
            slot = self._slots[y.key]
            array = np.asarray(values[slot])
            results.append(array.copy() if slot in taken or array.base is not None else array)
            taken.add(slot)
        return results

    def _blame(self, arrays, results):
        """Where a result that is not finite comes from."""
        which = next(n for n, y in enumerate(results) if not np.isfinite(y).all())
        values = self._start(arrays)
        for n, a in enumerate(values[1 : len(self.inputs) + 1]):
            if not np.isfinite(a).all():
                return f"result {which} is not finite: NaN or infinity came in with input {n}"
        with np.errstate(all="ignore"):
            for node, (kernel, arguments, slots) in zip(self.nodes, self._calls, strict=True):
                result = kernel(*[values[a] for a in arguments])
                for slot, part in zip(slots, [result] if len(slots) == 1 else result, strict=True):
                    values[slot] = part
                if not all(np.isfinite(values[slot]).all() for slot in slots):
                    return f"result {which} is not finite; the first op to make NaN or infinity of finite numbers is {self._line(node)}"
        return f"result {which} is not finite: NaN or infinity came in with a constant"

    # --- what it looks like ---

    def _name(self, x):
        if x.key in self._slots:
            node = x.node
            if node.op is CONSTANT and x.key not in {i.key for i in self.inputs}:
                array = node.params["array"]
                return f"{array.item():g}" if array.size == 1 and array.dtype.kind in "if" else f"constant{list(array.shape)}"
            return f"%{self._slots[x.key]}"
        return "?"

    def _line(self, node):
        outputs = ", ".join(f"{self._name(y)}: {y.dtype}{shown(y.shape)}" for y in node.outputs)
        params = [f"{k}={_plain(v)}" for k, v in node.params.items()]
        return f"{outputs} = {node.op.name}({', '.join([*map(self._name, node.inputs), *params])})"

    def _signature(self):
        return ", ".join(f"{self._name(x)}: {x.dtype}{shown(x.shape)}" for x in self.inputs)

    def __str__(self):
        lines = [f"inputs   {self._signature()}", *map(self._line, self.nodes)]
        return "\n".join([*lines, f"outputs  {', '.join(map(self._name, self.outputs))}"])

    def __repr__(self):
        return f"<Program: {len(self.inputs)} inputs, {self.op_count} ops, {len(self.outputs)} outputs>"

    def flowchart(self, results=()):
        """The statements of a mermaid flowchart: a box for each op, an arrow for each tensor, constants left out.

        results: names of the outputs.
        """
        box = {node.id: f"n{n}" for n, node in enumerate(self.nodes)}
        made = {y.key: box[node.id] for node in self.nodes for y in node.outputs}
        made |= {x.key: f"x{n}" for n, x in enumerate(self.inputs)}
        lines = [f'{made[x.key]}(["{_label(x)}"])' for x in self.inputs]
        lines += [f'{box[node.id]}["{node.op.name}<br/>{" ".join(shown(y.shape) for y in node.outputs)}"]' for node in self.nodes]
        arrows = {(made[x.key], box[node.id]): None for node in self.nodes for x in node.dependencies if x.key in made}
        lines += [f"{a} --> {b}" for a, b in arrows]
        names = results or [f"result {n}" for n in range(len(self.outputs))]
        ends = [f'y{n}(["{name}"])' for n, name in zip(range(len(self.outputs)), names, strict=True)]
        return [*lines, *ends, *(f"{made[y.key]} --> y{n}" for n, y in enumerate(self.outputs) if y.key in made)]


def _label(x):
    name = x.node.params.get("name") if x.node.op is PLACEHOLDER else None
    return f"{name or x.node.op.name}<br/>{shown(x.shape)}"


def _plain(value):
    if isinstance(value, tuple):
        return shown(value) if value and all(isinstance(v, EXTENTS) for v in value) else str(value)
    return repr(value)


def _numbers(params, bindings):
    """The parameters of an op with numbers for extents."""
    return {name: replace_extents(value, partial(evaluate, bindings=bindings)) for name, value in params.items()}


def _run_with_lengths(node, bindings, *arrays):
    """Run a node whose parameters have extents that are known only now."""
    lengths, inputs = arrays[: len(node.lengths)], arrays[len(node.lengths) :]
    values = {x.key: int(n) for x, n in zip(node.lengths, lengths, strict=True)}
    extents = [e for p in node.params.values() for e in extents_in(p) if isinstance(e, UpperBound)]
    return node.op.kernel(*inputs, **_numbers(node.params, bindings | {e: values[e.length.key] for e in extents}))


def _as_inputs(inputs, values):
    """The bindings of symbols, and the arguments as arrays of the dtypes and extents of the inputs; or an error."""
    arrays, bindings = [], {}
    for n, (x, value) in enumerate(zip(inputs, values, strict=True)):
        array = np.asarray(value)
        # Python numbers, and lists of them, have no precision of their own; that of an array must not be lost
        if not np.can_cast(array.dtype, x.dtype, "safe" if hasattr(value, "dtype") else "same_kind"):
            raise TypeError(f"input {n} must be {x.dtype}, got {array.dtype}, which does not convert without loss; convert it before")
        arrays.append(array.astype(x.dtype, copy=False))
        for e, size in zip(x.shape, array.shape, strict=False):
            if isinstance(e, Sym | UpperBound):
                bindings.setdefault(e, size)
    for n, (x, array) in enumerate(zip(inputs, arrays, strict=True)):
        if array.ndim != x.ndim or not all(_fits(e, size, bindings) for e, size in zip(x.shape, array.shape, strict=True)):
            bound = ", ".join(f"{e!r} = {v}" for e, v in bindings.items())
            raise ValueError(f"input {n} must have the shape {shown(x.shape)}, got {list(array.shape)}" + (f" ({bound})" if bound else ""))
    return bindings, arrays


def _fits(e, size, bindings):
    largest = known(e.bound) if isinstance(e, UpperBound) else None
    return size == evaluate(e, bindings) and (largest is None or size <= largest)


def compile(outputs, inputs):
    """Compile tensors into a ``Program`` of the inputs.

    outputs: list of traced tensors.  inputs: list of different traced tensors, mostly placeholders; any other tensor
    is taken as given too, and what only it needs is not computed.

    Ops that no output needs are dropped, equal ones run once, the order of contractions is planned here, and an
    array is freed after its last use.
    Errors: ValueError for an output that depends on a placeholder which is not among the inputs.

    >>> x, y = traced.placeholder(()), traced.placeholder(())
    >>> traced.compile([x * y + x * y], [x, y])(2.0, 3.0)[0].tolist()
    12.0
    """
    for name, tensors in (("outputs", outputs), ("inputs", inputs)):
        if not isinstance(tensors, list | tuple) or not all(isinstance(x, Traced) for x in tensors):
            raise TypeError(f"compile takes {name} as a list of traced tensors, got {tensors!r}")
    if len({x.key for x in inputs}) < len(inputs):
        raise ValueError("compile got an input twice")
    return Program(outputs, inputs)
