"""Time and memory of all methods, side by side in one process: value and gradient of ln Z, and how they grow.

    python benchmarks/methods.py [--full] [--chi 8 16 24] [--steps 10 20 40] [--rounds 3] [--budget 60]

Two rows of sizes are measured: every chi at 20 steps, and every number of steps at the smallest chi.  --full is
chi 8 to 48 and 10 to 200 steps.  Every figure is a median over rounds in which the methods take turns in random
order.  In a cold round a method starts with empty caches; in a steady round all of its programs are there.  There are
--rounds cold rounds at chi = 16 and 20 steps, where ratios are wanted, and one at the other sizes.  A method
whose call is expected to take longer than the budget, in seconds, is skipped at that size, and takes part in fewer
rounds where they would use up more than the budget.

Memory is what XLA reports for its programs, the peak of NumPy's allocations for the traced methods, and the sum of the
two, with what the driver keeps, for "sectors".  Workspace inside LAPACK is counted by neither.

Written to benchmarks/results: methods.md (tables), methods.json (all figures), methods.svg (two growth laws).
"""

import argparse
import json
import os
import random
import statistics
import time
import tracemalloc
from functools import partial
from pathlib import Path

# Before JAX is imported: threads of OpenBLAS that wait for each other make the time of an SVD a matter of luck.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import trgnb  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from trgnb import methods, sectors, staging, traced  # noqa: E402

BETA = 0.44
BETAS = (0.30, 0.40, 0.44, 0.50, 0.60)
STEPS = 20
SMALL = {"chi": [8, 16, 24], "steps": [10, 20, 40]}
FULL = {"chi": [8, 16, 24, 32, 48], "steps": [10, 20, 50, 200]}
MIB = 2.0**20
RESULTS = Path(__file__).parent / "results"

COLUMNS = {
    "lower": "trace+lower s",
    "compile": "compile s",
    "first": "first result s",
    "prepare": "first - steady s",
    "steady": "steady s",
    "cpu": "of processors s",
    "temp": "memory MiB",
    "difference": "largest |gradient - unrolled|",
}


def forget():
    """Empty every cache that holds something traced or compiled."""
    jax.clear_caches()
    traced.clear_cache()
    for cache in (methods._jitted, staging._chain, staging.recomputing, staging.keeping, *methods._ENGINES.values()):
        cache.cache_clear()


def build(method, ks):
    """All programs of a method for a schedule: (function beta -> (ln Z, gradient), function -> bytes, times).

    The staged methods trace and compile their programs in threads, side by side, so only the whole has a time.  Those by
    sectors make the remaining ones when they first meet the numbers of even and odd values.
    """
    if method in methods._ENGINES:
        engine = methods._ENGINES[method]
        chain, building = seconds(staging._chain, engine, ks, "forward", "backward")
        run = partial(staging.staged_lnz_and_grad, engine, ks=ks)
        if method == "sectors":
            memory = partial(sector_bytes, engine, ks, run)
        elif method.startswith("traced"):
            memory = partial(peak_bytes, run)
        else:
            memory = partial(staged_bytes, [programs for programs, _ in chain])
        return run, memory, {"build": building}
    lowered, lowering = seconds(methods._jitted(method, ks)[1].lower, jnp.float64(BETA))
    compiled, compiling = seconds(lowered.compile)
    return compiled, partial(temp_bytes, compiled), {"lower": lowering, "compile": compiling, "build": lowering + compiling}


def temp_bytes(compiled):
    return compiled.memory_analysis().temp_size_in_bytes


def peak_bytes(run):
    """Peak of what Python and NumPy allocate during a run."""
    tracemalloc.start()
    run(BETA)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def staged_bytes(programs):
    """Temporary memory of the largest program, and what the driver keeps between the passes."""
    compiled = [p for stage in programs for p in (stage.forward, stage.backward, stage.value) if hasattr(p, "memory_analysis")]
    x, kept = jnp.float64(BETA), 0
    for stage in programs:
        x, _, residuals = stage.forward(x)
        kept += sum(leaf.nbytes for leaf in jax.tree.leaves(residuals))
    return max(map(temp_bytes, compiled)) + kept


def sector_bytes(engine, ks, run):
    """The peak of NumPy, the blocks that XLA's programs made and the driver keeps, and the largest program's own."""
    x, own, kept = jnp.float64(BETA), [], 0
    for stage in staging.stages(ks)[:-1]:
        y, *_ = engine(stage).value(x)
        kept += sum(block.nbytes for block in y.blocks)
        if stage.name == "step":
            programs = staging.recomputing(sectors.Join(x.legs, y.legs, x.same))
            own += map(temp_bytes, (programs.value, programs.backward))
        x = y
    return peak_bytes(run) + kept + max(own)


def seconds(function, *args):
    """(result, wall time) of a call, waiting for the arrays in the result."""
    start = time.perf_counter()
    result = jax.block_until_ready(function(*args))
    return result, time.perf_counter() - start


def cold_round(method, ks):
    """Times from empty caches to the first gradient."""
    forget()
    run, _, times = build(method, ks)
    _, running = seconds(run, jnp.float64(BETA))
    return {**times, "first": times["build"] + running}


def steady_round(run):
    """Wall time of a call, and the time of the processors, which other work on the machine does not lengthen much."""
    before = time.process_time()
    _, wall = seconds(run, jnp.float64(BETA))
    return {"steady": wall, "cpu": time.process_time() - before}


def take_turns(names, rounds, budget, measure):
    """{method: list of measure(method)}, the methods in another order in every round, fewer rounds for slow ones."""
    found, used = {name: [] for name in names}, dict.fromkeys(names, 0.0)
    for _ in range(rounds):
        for name in random.sample(names, len(names)):
            spent = used[name] / max(1, len(found[name]))
            if not found[name] or used[name] + spent <= budget:
                start = time.perf_counter()
                found[name].append(measure(name))
                used[name] += time.perf_counter() - start
    return found


def measure(names, ks, rounds, budget):
    """{method: {column: number}}."""
    cold = take_turns(names, rounds, budget, lambda method: cold_round(method, ks))
    forget()
    built = {method: build(method, ks) for method in names}
    for run, *_ in built.values():
        run(jnp.float64(BETA))
    steady = take_turns(names, max(rounds, 5), budget, lambda method: steady_round(built[method][0]))
    table = {}
    for method, (_, memory, _) in built.items():
        row = {column: statistics.median(times[column] for times in cold[method]) for column in cold[method][0]}
        row |= {column: statistics.median(times[column] for times in steady[method]) for column in ("steady", "cpu")}
        table[method] = {**row, "prepare": row["first"] - row["steady"], "temp": memory() / MIB, "rounds": len(cold[method])}
    return table


def differences(ks):
    """{method: the largest distance of its gradient from that of "unrolled" among five betas}."""
    found = {name: [float(trgnb.lnz_and_grad(beta, schedule=ks, method=name)[1]) for beta in BETAS] for name in trgnb.METHODS}
    return {name: max(abs(a - b) for a, b in zip(row, found["unrolled"], strict=True)) for name, row in found.items()}


def expected(method, chi, steps, tables):
    """Seconds of a first call: chi^6 times the steps after the largest size measured, and its preparation; 0 at first."""
    known = [size for size, table in tables.items() if method in table and size[0] <= chi and size[1] <= steps]
    if not known:
        return 0.0
    near = max(known)
    row = tables[near][method]
    return row["steady"] * (chi / near[0]) ** 6 * (steps / near[1]) + max(row["prepare"], 0.0)


def sweep(sizes, rounds, budget):
    """Yield ({(chi, steps): {method: row}}, notes on what was skipped) after each size."""
    tables, notes = {}, []
    for chi, steps in sizes:
        names = []
        for method in trgnb.METHODS:
            wait = expected(method, chi, steps, tables)
            if wait <= budget:
                names.append(method)
            else:
                notes.append(f"skipped: {method} at chi = {chi}, {steps} steps, a call of about {wait:.0f} s (budget {budget:g} s)")
                print(f"  {notes[-1]}", flush=True)
        start = time.perf_counter()
        ratios_wanted = (chi, steps) == (16, STEPS)
        tables[chi, steps] = measure(names, trgnb.schedule(chi, steps), rounds if ratios_wanted else 1, budget)
        if ratios_wanted and len(names) == len(trgnb.METHODS):
            for name, difference in differences(trgnb.schedule(chi, steps)).items():
                tables[chi, steps][name]["difference"] = difference
        print(f"  chi = {chi}, {steps} steps: {time.perf_counter() - start:.0f} s", flush=True)
        yield tables, notes


def laws(tables, smallest):
    """{method: slopes of logarithms}: against chi at 20 steps, and against the steps at the smallest chi."""
    found = {}
    for method in trgnb.METHODS:

        def slope(column, size, method=method):
            rows = [(size(*key), table[method][column]) for key, table in tables.items() if size(*key) and method in table]
            rows = [(x, y) for x, y in rows if y > 0]
            return float(np.polyfit(*np.log(rows).T, 1)[0]) if len(rows) > 2 else None

        by_chi, by_steps = (lambda chi, steps: chi * (steps == STEPS)), (lambda chi, steps: steps * (chi == smallest))
        found[method] = {
            "steady ~ chi^": slope("cpu", by_chi),
            "memory ~ chi^": slope("temp", by_chi),
            "steady ~ steps^": slope("cpu", by_steps),
            "first - steady ~ steps^": slope("prepare", by_steps),
            "memory ~ steps^": slope("temp", by_steps),
        }
    return found


def targets(tables):
    """What the project wants of its methods: (text, figure or None, limit, whether at least or at most the limit)."""

    def ratio(chi, column, above, below):
        a, b = (tables.get((chi, STEPS), {}).get(name) for name in (above, below))
        return a[column] / b[column] if a and b else None

    return [
        ("steady, unrolled / sectors, chi = 16", ratio(16, "steady", "unrolled", "sectors"), 3.0, "least"),
        ("steady, unrolled / sectors, chi = 32", ratio(32, "steady", "unrolled", "sectors"), 5.0, "least"),
        ("time of processors, unrolled / sectors, chi = 16", ratio(16, "cpu", "unrolled", "sectors"), 3.0, "least"),
        ("time of processors, unrolled / sectors, chi = 32", ratio(32, "cpu", "unrolled", "sectors"), 5.0, "least"),
        ("first result, unrolled / sectors, chi = 16", ratio(16, "first", "unrolled", "sectors"), 1.0, "least"),
        ("first result, unrolled / traced-sectors, chi = 16", ratio(16, "first", "unrolled", "traced-sectors"), 3.0, "least"),
        ("memory, sectors / unrolled, chi = 16", ratio(16, "temp", "sectors", "unrolled"), 0.5, "most"),
        ("memory, traced-sectors / unrolled, chi = 16", ratio(16, "temp", "traced-sectors", "unrolled"), 0.5, "most"),
        ("trace+lower, scan / unrolled, chi = 16", ratio(16, "lower", "scan", "unrolled"), 0.6, "most"),
        ("memory, checkpoint / unrolled, chi = 16", ratio(16, "temp", "checkpoint", "unrolled"), 0.25, "most"),
        ("first result, staged / unrolled, chi = 16", ratio(16, "first", "staged", "unrolled"), 1.0, "most"),
    ]


def verdict(text, figure, limit, side):
    if figure is None:
        return f"{text:50} not measured, wanted at {side} {limit:.2f}"
    reached = figure >= limit if side == "least" else figure <= limit
    return f"{text:50} {figure:6.2f}, wanted at {side} {limit:.2f}: {'reached' if reached else 'NOT reached'}"


def cell(column, row):
    if column not in row:
        return "-"
    return f"{row[column]:{'.1e' if column == 'difference' else '.3f'}}"


def report(tables, notes, growth, about):
    """The tables as Markdown."""

    def grid(head, rows):
        cells = [head, *rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["| " + " | ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)) + " |" for row in cells]
        return [lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:], ""]

    lines = ["# Methods side by side: value and gradient", "", about, ""]
    for (chi, steps), table in tables.items():
        shown = [c for c in COLUMNS if any(c in row for row in table.values())]
        lines += [f"## chi = {chi}, {steps} steps", ""]
        lines += grid(["method", *(COLUMNS[c] for c in shown)], [[m, *(cell(c, row) for c in shown)] for m, row in table.items()])
    lines += ["## Growth", "", "Slopes of logarithms (steady: time of processors): against chi at 20 steps, and against the steps at the smallest chi.", ""]
    names = list(next(iter(growth.values())))
    lines += grid(["method", *names], [[m, *("-" if law[n] is None else f"{law[n]:.2f}" for n in names)] for m, law in growth.items()])
    lines += ["## Targets", "", *(f"    {verdict(*target)}" for target in targets(tables)), "", *(f"- {note}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def draw(tables, smallest, path):
    """Steady time against chi, and what comes before it against the number of steps."""
    from matplotlib import pyplot as plt

    plt.style.use("trgnb.book")
    fig, axes = plt.subplots(1, 2, figsize=(9.0, 3.8))
    panels = [(axes[0], "steady", lambda chi, steps: chi * (steps == STEPS)), (axes[1], "prepare", lambda chi, steps: steps * (chi == smallest))]
    for n, method in enumerate(trgnb.METHODS):
        for ax, column, size in panels:
            rows = [(size(*key), table[method][column]) for key, table in sorted(tables.items()) if size(*key) and method in table]
            xs, ys = [x for x, _ in rows], [max(y, 1e-3) for _, y in rows]
            ax.loglog(xs, ys, marker="osv^D<>ph"[n], color=f"C{n % 7}", lw=2.2 if "sectors" in method else 1.0, label=method)
    axes[0].set(xlabel=f"χ, {STEPS} steps", ylabel="value and gradient, s")
    axes[1].set(xlabel=f"steps, χ = {smallest}", ylabel="first result − steady, s")
    axes[0].legend(fontsize="x-small")
    fig.savefig(path)
    plt.close(fig)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help=f"chi {FULL['chi']} and steps {FULL['steps']}")
    parser.add_argument("--chi", type=int, nargs="+")
    parser.add_argument("--steps", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=3, help="medians are taken over this many (default: 3)")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a method at one size (default: 60)")
    options = parser.parse_args()
    grid = FULL if options.full else SMALL
    chis, steps = sorted(options.chi or grid["chi"]), sorted(options.steps or grid["steps"])
    sizes = list(dict.fromkeys([(chi, STEPS) for chi in chis] + [(chis[0], n) for n in steps]))

    about = (
        f"JAX {jax.__version__}, NumPy {np.__version__}, {os.cpu_count()} processors, OPENBLAS_NUM_THREADS={os.environ['OPENBLAS_NUM_THREADS']}, "
        f"beta = {BETA}; medians of rounds in turns."
    )
    print(about, flush=True)
    jax.block_until_ready(jax.jit(lambda a: trgnb.svd.svd(a))(jnp.eye(2)))  # the start of JAX itself is nobody's cost
    RESULTS.mkdir(exist_ok=True)
    for tables, notes in sweep(sizes, options.rounds, options.budget):  # written after every size, for those who stop it
        growth = laws(tables, chis[0])
        text = report(tables, notes, growth, about)
        record = {
            "about": about,
            "smallest": chis[0],
            "sizes": [{"chi": chi, "steps": n, "methods": table} for (chi, n), table in tables.items()],
            "growth": growth,
            "targets": {text: figure for text, figure, *_ in targets(tables)},
            "skipped": notes,
        }
        (RESULTS / "methods.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "methods.md").write_text(text)
        draw(tables, chis[0], RESULTS / "methods.svg")
    print(text)
    print(f"written to {RESULTS}: methods.md, methods.json, methods.svg")


if __name__ == "__main__":
    main()
