"""Graphs and programs: what is recorded, compiled, run, freed, shown, and refused."""

import ast
import gc
import pkgutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from trgnb import traced
from trgnb.traced import contract, graph, paths

placeholder = traced.placeholder


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(traced.__path__)])
def test_the_library_runs_without_jax(module):
    source = Path(traced.__file__).with_name(f"{module}.py").read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        assert not any(name.split(".")[0] in ("jax", "jaxlib") for name in names)
        # and nothing of the package that might
        assert not any(name.startswith("trgnb") and not name.startswith("trgnb.traced") for name in names)


# --- the graph ------------------------------------------------------------------------------------------------


def test_equal_expressions_are_one_node():
    x, y = placeholder((3,)), placeholder((3,))
    assert x * y + 1.0 is x * y + 1.0
    assert x * y is not y * x
    assert x.sum() is not y.sum()
    assert placeholder((3,)) is not placeholder((3,))
    assert (x + 0.0) is not (x + -0.0)  # other bits
    assert x.take([0, 1], 0) is not x.take([1, 0], 0)
    m = placeholder((2, 2))
    assert m.svd()[0] is m.svd()[0] and m.svd(eps=1e-6)[0] is not m.svd()[0]


def test_a_graph_that_nobody_holds_is_collected():
    x = placeholder((3,))
    y = x
    for _ in range(3):
        y = y * y + 1.5
    gone = weakref.ref(y.node)
    traced.compile([traced.grad(y.sum(), x)], [x])
    del y
    gc.collect()
    before = len(graph._table)
    assert gone() is None
    x.sum() + 12345.0
    gc.collect()
    assert len(graph._table) <= before


def test_a_long_graph():
    """Neither recording, differentiating, running nor freeing recurses."""
    x = placeholder(())
    y = x
    for _ in range(3000):
        y = y * 0.999 + 0.001
    program = traced.compile([y, traced.grad(y, x), traced.jvp(y, x, 1.0)], [x])
    value, gradient, tangent = program(1.0)
    assert value == pytest.approx(1.0)
    assert gradient == pytest.approx(0.999**3000) and tangent == pytest.approx(gradient)
    t = traced.eager(1.0)
    y = t
    for _ in range(1500):
        y = y * 0.999
    y.backward()
    assert t.grad == pytest.approx(0.999**1500)
    del program, y, t
    gc.collect()


def test_a_constant_is_a_copy():
    """What is done to the array later changes neither the graph nor what equals what."""
    x, a = placeholder((2,)), np.ones((2, 2))
    y, t = traced.einsum("ij,j->i", a, x), traced.eager([1.0, 2.0])
    z = traced.einsum("ij,j->i", a, t)
    a[:] = 0.0
    np.testing.assert_array_equal(traced.compile([y], [x])([1.0, 2.0])[0], [3.0, 3.0])
    traced.backward([z], [np.ones(2)])
    np.testing.assert_array_equal(t.grad, [2.0, 2.0])
    assert traced.einsum("ij,j->i", a, x) is not y


@pytest.mark.parametrize("turn", [1, -1])
def test_given_tensors_are_independent(turn):
    """Derivatives with respect to a tensor and to what it is made of are partial, whatever the other outputs are."""
    x = placeholder((2, 2))
    u, s, vh = x.svd()
    first, second = [(s * s).sum(), (u @ vh).sum() * 0.0][::turn]
    y = first + second
    dx, ds = traced.grad(y, [x, s])
    value_x, value_s = traced.compile([dx, ds], [x])([[2.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(value_x, np.zeros((2, 2)))
    np.testing.assert_array_equal(value_s, [4.0, 2.0])
    assert traced.compile([traced.grad(y.sum(), y)], [x])(np.eye(2)) == [1.0]


# --- programs -------------------------------------------------------------------------------------------------


def test_shared_and_dead_work():
    x = placeholder((3, 3))
    y = (x @ x).sum()
    x.svd()
    z = (x @ x).sum() * 2.0
    program = traced.compile([y, z], [x])
    assert program.counts == {"einsum": 1, "sum": 1, "mul": 1}
    assert program.op_count == 3
    given = traced.compile([z], [y])
    assert given.op_count == 1 and given(5.0) == [10.0]


def test_the_forward_pass_is_shared_with_the_gradient():
    x = placeholder((3, 3))
    y = x.svd()[1].sum()
    assert traced.compile([y, traced.grad(y, x), traced.jvp(y, x, np.ones((3, 3)))], [x]).counts["svd"] == 1


def test_outputs_are_nobody_elses_memory():
    x = placeholder((2, 2))
    c = graph.Traced.constant(np.ones((2, 2)))
    y = x * 2.0
    outputs = [x, c, x.T, x[:1], x.reshape(4), y, y, y.T, y[0], traced.broadcast_to(x, (2, 2, 2))]
    program, a = traced.compile(outputs, [x]), np.arange(4.0).reshape(2, 2)
    results = program(a)
    for i, r in enumerate(results):
        assert r.flags.writeable and not np.shares_memory(r, a)
        assert not any(np.shares_memory(r, other) for other in results[:i])
        r[...] = -1.0
    np.testing.assert_array_equal(a, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(program(a)[1], np.ones((2, 2)))


def test_a_program_is_a_function_of_its_inputs():
    x, y = placeholder((2,)), placeholder(())
    program = traced.compile([x * y, x.sum()], [x, y])
    for scale in (1.0, 2.0):
        np.testing.assert_array_equal(program([1, 2], scale)[0], [scale, 2 * scale])
    constant, one_input = traced.compile([traced.sqrt(4.0), x.sum()], [x, y])([1, 2], 7)
    assert constant == 2 and one_input == 3


def test_threads():
    x = placeholder((4, 4))
    y = (x.svd()[1] * 1.0).sum()
    program = traced.compile([traced.grad(y, x)], [x])
    arrays = [np.random.default_rng(i).standard_normal((4, 4)) for i in range(20)]
    alone = [program(a)[0] for a in arrays]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda a: program(a)[0], arrays))
    np.testing.assert_array_equal(alone, together)


def test_arrays_are_freed_after_their_last_use():
    x = placeholder((5,))
    y = x
    for _ in range(10):
        y = y * y
    program = traced.compile([y], [x])
    alive, most = weakref.WeakSet(), []

    class Watched(np.ndarray):
        __hash__ = object.__hash__

    def kernel(a, b):
        result = np.multiply(a, b).view(Watched)
        alive.add(result)
        most.append(len(alive))
        return result

    program._calls = [(kernel, *call[1:]) for call in program._calls]
    program(np.ones(5))
    assert len(most) == 10 and max(most) <= 3


def test_the_order_of_contractions_is_planned_once(monkeypatch):
    calls, plan = [], contract.contract_expression
    monkeypatch.setattr(contract, "contract_expression", lambda *args, **kw: calls.append(args) or plan(*args, **kw))
    contract.planned.cache_clear()
    x = placeholder((2, 3))
    program = traced.compile([traced.einsum("ij,kj,kl->il", x, x, x)], [x])
    assert len(calls) == 1
    for _ in range(3):
        program(np.ones((2, 3)))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), TypeError, r"takes 2 inputs, got 0: %1: float64\[2\], %2: int64\[\]"),
        ((np.ones(2), 1, 2), TypeError, "takes 2 inputs, got 3"),
        ((np.ones(3), 1), ValueError, r"input 0 must have the shape \[2\], got \[3\]"),
        ((np.ones((2, 1)), 1), ValueError, r"input 0 must have the shape \[2\], got \[2, 1\]"),
        ((1.0, 1), ValueError, r"input 0 must have the shape \[2\], got \[\]"),
        ((np.ones(2) * 1j, 1), TypeError, "input 0 must be float64, got complex128"),
        ((np.ones(2), 1.5), TypeError, "input 1 must be int64, got float64"),
        ((None, 1), TypeError, "input 0 must be float64, got object"),
    ],
)
def test_bad_arguments(arguments, error, message):
    x, n = placeholder((2,)), placeholder((), "int64")
    with pytest.raises(error, match=message):
        traced.compile([x * 1.0, n * 2], [x, n])(*arguments)


def test_integers_bools_and_lists_are_welcome():
    x, n, b = placeholder((2,)), placeholder((), "int64"), placeholder((2,), "bool")
    program = traced.compile([traced.where(b, x * n, 0.5), n + 1, b.sum()], [x, n, b])
    values = program([1, 2], np.int32(3), [True, False])
    np.testing.assert_array_equal(values[0], [3.0, 0.5])
    assert values[1:] == [4, 1] and [v.dtype for v in values] == [np.float64, np.int64, np.int64]


@pytest.mark.parametrize(
    ("compiled", "error", "message"),
    [
        (lambda x, y: ([x * y], [x]), ValueError, "depend on the placeholder .* not among the 1 inputs; add it"),
        (lambda x, y: ([x], [x, x]), ValueError, "got an input twice"),
        (lambda x, y: (x, [x]), TypeError, "takes outputs as a list of traced tensors"),
        (lambda x, y: ([x], x), TypeError, "takes inputs as a list of traced tensors"),
        (lambda x, y: ([1.0], [x]), TypeError, "takes outputs as a list of traced tensors"),
        (lambda x, y: ([traced.broadcast_to(y, ("m",))], [y]), ValueError, r"Sym\(m\) is not the extent of an axis"),
    ],
)
def test_bad_programs(compiled, error, message):
    with pytest.raises(error, match=message):
        traced.compile(*compiled(placeholder((2,)), placeholder(())))


# --- results that are not finite --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "value", "op"),
    [
        (lambda x: traced.grad(x.sqrt().sum(), x), [2.0, 0.0], r"= div\("),
        (lambda x: x.log(), [1.0, 0.0], r"= log\("),
        (lambda x: x.sqrt() * 2.0, [1.0, -1.0], r"= sqrt\("),
        (lambda x: (x * 1e200) * x, [1e200, 0.0], r"= mul\("),
        (lambda x: x * 2.0, [np.nan, 0.0], "came in with input 0"),
        (lambda x: x * np.array([np.inf, 1.0]), [1.0, 0.0], "came in with a constant|= mul"),
    ],
)
def test_the_op_to_blame(function, value, op):
    x = placeholder((2,))
    with pytest.warns(traced.NonFiniteWarning, match=op):
        traced.compile([x.sum() * 0.0 if np.isfinite(value).all() else x, function(x)], [x])(value)


@pytest.mark.parametrize("decompose", [traced.svd, traced.svd_full, traced.qr, traced.eigh])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_decomposition_wants_finite_numbers(decompose, bad):
    x = placeholder((2, 2))
    with pytest.raises(FloatingPointError, match="NaN or infinity") as error:
        traced.compile([decompose(x)[0]], [x])([[1.0, bad], [0.0, 1.0]])
    assert decompose.__name__ in error.value.__notes__[0]
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        decompose(traced.eager([[1.0, bad], [0.0, 1.0]]))


# --- how it looks -------------------------------------------------------------------------------------------------


def test_as_text():
    x = placeholder((4, 4), name="x")
    y = x.svd()[1].reshape(4)[:2].sum() * 3.0
    program = traced.compile([y, traced.grad(y, x)], [x])
    lines = str(program).splitlines()
    assert lines[0] == "inputs   %1: float64[4, 4]"
    assert len(lines) == program.op_count + 2 and lines[-1].startswith("outputs  %")
    decomposition = next(line for line in lines if "= svd(%1, eps=1e-12, driver='lapack')" in line)
    assert "float64[4, Min(Const(4), Const(4))]" in decomposition
    assert not any("?" in line for line in lines)
    assert repr(program) == f"<Program: 1 inputs, {program.op_count} ops, 2 outputs>"


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("float32", 0.1, True),  # a Python number has no precision of its own
        ("float32", [0.1], True),
        ("float32", np.float32(0.1), True),
        ("float32", np.array(3), False),
        ("float32", np.float64(0.1), False),
        ("float32", np.array(0.1), False),
        ("float64", np.float32(0.1), True),
        ("float64", 3, True),
        ("float64", 1j, False),
        ("int64", np.int32(3), True),
        ("int64", 3.0, False),
        ("complex128", 0.1, True),
    ],
)
def test_inputs_convert_only_without_loss(dtype, value, fits):
    x = placeholder(np.shape(value), dtype)
    program = traced.compile([x + x], [x])
    if fits:
        (result,) = program(value)
        assert result.dtype == dtype and (result == 2 * np.asarray(value, dtype)).all()
    else:
        with pytest.raises(TypeError, match=f"input 0 must be {dtype}, got .* without loss; convert it before"):
            program(value)


@pytest.mark.parametrize("given", ["placeholder", "intermediate"])
def test_flowchart(given):
    x, k = placeholder((4,), name="x"), placeholder((), "int64")
    s = x * 2.0
    y = traced.dynamic_truncate(s, k, 0).sum() + s.sum()
    inputs = [x, k] if given == "placeholder" else [s, k]
    program = traced.compile([y, traced.grad(y, inputs[0]), graph.Traced.constant(np.ones(2))], inputs)
    lines = program.flowchart()
    boxes = {line.replace("(", "[").split("[")[0] for line in lines if "-->" not in line}
    arrows = [line.split(" --> ") for line in lines if "-->" in line]
    assert all(end in boxes for arrow in arrows for end in arrow)
    assert len(boxes) == 2 + program.op_count + 3 == len(lines) - len(arrows)
    # every op is fed, k those whose lengths it is as well
    variable = [any(x.node.op.name != "constant" for x in node.dependencies) for node in program.nodes]
    fed = {f"n{n}" for n, here in enumerate(variable) if here}
    assert fed <= {b for _, b in arrows} and any(node.lengths for node in program.nodes)
    assert any("x<br/>[4]" in line for line in lines) == (given == "placeholder")


# --- the transform without sharing --------------------------------------------------------------------------------


def chain(steps):
    """Every step uses its tensor twice."""
    x = placeholder(())
    y = x
    for _ in range(steps):
        y = y * y
    return y, x


def branches():
    x = placeholder((3, 3))
    u, s, vh = (x * x + x).svd()
    return (u * s @ vh @ x).sum() + traced.where(x > 0.0, x, 1.0).sum(), x


@pytest.mark.parametrize(("y", "x"), [chain(4), branches()])
def test_with_and_without_sharing(y, x):
    shared, unshared = (traced.compile([g(y, x)], [x]) for g in (traced.grad, paths.unshared_grad))
    value = np.random.default_rng(0).uniform(0.5, 1.5, x.concrete_shape)
    np.testing.assert_allclose(*(p(value)[0] for p in (shared, unshared)), rtol=1e-12)


@pytest.mark.parametrize(("y", "x"), [chain(6), branches()])
@pytest.mark.parametrize("which", ["shared", "unshared"])
def test_counts_are_the_rules_that_run(y, x, which, monkeypatch):
    calls = []
    for op in {node.op for node in graph.ancestors([y])}:
        monkeypatch.setitem(vars(op), "vjp", lambda *args, rule=op.vjp: calls.append(args) or rule(*args))
    {"shared": traced.grad, "unshared": paths.unshared_grad}[which](y, x)
    assert len(calls) == getattr(paths.rule_calls(y, x), which)


def test_sharing_is_linear_and_its_absence_exponential():
    counts = [paths.rule_calls(*chain(n)) for n in range(1, 60)]
    assert [c.shared for c in counts] == [2 * n for n in range(1, 60)]
    assert [c.unshared for c in counts] == [2 ** (n + 1) - 2 for n in range(1, 60)]


def test_a_limit_on_the_rules():
    y, x = chain(10)
    with pytest.raises(paths.LimitError, match="100 rules applied, of 2046"):
        paths.unshared_grad(y, x, limit=100)
    paths.unshared_grad(y, x, limit=2046)
    assert traced.compile([paths.unshared_grad(x.sum() * 0.0 + 1.0, placeholder(()))], [])() == [0.0]
    for function in (paths.unshared_grad, paths.rule_calls):
        with pytest.raises(ValueError, match="takes a real scalar y"):
            function(placeholder((2,)), x)
