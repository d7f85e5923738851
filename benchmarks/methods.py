"""Time and memory of the methods, side by side in one process: value and gradient of ln Z.

    python benchmarks/methods.py [--chi 16] [--steps 20] [--rounds 3]

Every figure is a median over rounds in which the methods take turns in random order.  In a cold round a method
starts with empty caches; in a steady round all of its programs are there.  Memory is what XLA reports for its
programs, and the peak of NumPy's allocations for the traced methods.  Also written to
benchmarks/results/methods.json.
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
import trgnb  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from trgnb import methods, staging, traced, traced_engines  # noqa: E402

BETA = 0.44
BETAS = (0.30, 0.40, 0.44, 0.50, 0.60)
MIB = 2.0**20
RESULTS = Path(__file__).parent / "results" / "methods.json"

COLUMNS = {
    "lower": "trace+lower s",
    "compile": "compile s",
    "build": "both s",
    "first": "first result s",
    "steady": "steady s",
    "temp": "memory MiB",
    "difference": "largest |gradient - unrolled|",
}

def forget():
    """Empty every cache that holds something traced or compiled."""
    jax.clear_caches()
    traced.clear_cache()
    for cache in (methods._jitted, staging._chain, staging.recomputing, staging.keeping, traced_engines.recomputing):
        cache.cache_clear()


def build(method, ks):
    """All programs of a method for a schedule: (function beta -> (ln Z, gradient), function -> bytes, times).

    The staged methods trace and compile their programs in threads, side by side, so only the whole has a time.
    """
    if method in methods._ENGINES:
        engine = methods._ENGINES[method]
        chain, building = seconds(staging._chain, engine, ks, "forward", "backward")
        programs = [programs for programs, _ in chain]
        run = partial(staging.staged_lnz_and_grad, engine, ks=ks)
        memory = partial(peak_bytes, run) if method.startswith("traced") else partial(staged_bytes, programs)
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


def take_turns(rounds, measure):
    """{method: list of measure(method)}, the methods in another order in every round."""
    found = {method: [] for method in trgnb.METHODS}
    for n in range(rounds):
        for method in random.sample(trgnb.METHODS, len(trgnb.METHODS)):
            found[method].append(measure(method))
        print(f"  round {n + 1} of {rounds}", flush=True)
    return found


def measure(ks, rounds):
    """{method: {column: number}}."""
    jax.block_until_ready(jax.jit(lambda a: trgnb.svd.svd(a))(jnp.eye(2)))  # the start of JAX itself is nobody's cost
    print("from empty caches")
    cold = take_turns(rounds, lambda method: cold_round(method, ks))
    forget()
    built = {method: build(method, ks) for method in trgnb.METHODS}
    for run, *_ in built.values():
        run(jnp.float64(BETA))
    print("steady")
    steady = take_turns(max(rounds, 5), lambda method: seconds(built[method][0], jnp.float64(BETA))[1])
    gradients = {method: [float(run(jnp.float64(beta))[1]) for beta in BETAS] for method, (run, *_) in built.items()}
    return {
        method: {
            **{column: statistics.median(times[column] for times in cold[method]) for column in cold[method][0]},
            "steady": statistics.median(steady[method]),
            "temp": memory() / MIB,
            "difference": max(abs(a - b) for a, b in zip(gradients[method], gradients["unrolled"], strict=True)),
        }
        for method, (_, memory, _) in built.items()
    }


def ratios(table):
    """The three statements about methods that the project makes: (text, ratio, limit)."""

    def ratio(column, method):
        return table[method][column] / table["unrolled"][column]

    return [
        ("scan: trace+lower, of unrolled's", ratio("lower", "scan"), 0.6),
        ("checkpoint: temp memory, of unrolled's", ratio("temp", "checkpoint"), 0.25),
        ("staged: first result, of unrolled's", ratio("first", "staged"), 1.0),
    ]


def cell(column, row):
    if column not in row:
        return "-"
    return f"{row[column]:{'.1e' if column == 'difference' else '.3f'}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chi", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="medians are taken over this many (default: 3)")
    options = parser.parse_args()
    ks = trgnb.schedule(options.chi, options.steps)

    print(f"JAX {jax.__version__}, chi = {options.chi}, {options.steps} steps, beta = {BETA}; medians of {options.rounds} rounds")
    table = measure(ks, options.rounds)
    print(f"{'method':14}" + "".join(f"{title:>{len(title) + 3}}" for title in COLUMNS.values()))
    for method, row in table.items():
        print(f"{method:14}" + "".join(f"{cell(c, row):>{len(title) + 3}}" for c, title in COLUMNS.items()))
    for text, ratio, limit in ratios(table):
        print(f"{text:40} {ratio:6.2f}, wanted at most {limit:.2f}: {'reached' if ratio <= limit else 'NOT reached'}")

    RESULTS.parent.mkdir(exist_ok=True)
    record = {"jax": jax.__version__, **vars(options), "methods": table, "ratios": {text: ratio for text, ratio, _ in ratios(table)}}
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
