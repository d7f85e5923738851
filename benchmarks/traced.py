"""The traced library on the TRG: building, value and gradient beside a bare NumPy loop, and the cost of two transforms.

    python benchmarks/traced.py [--chi 16] [--steps 20] [--rounds 5]

Times are medians over rounds in which the contestants take turns in random order.  Also written to
benchmarks/results/traced.json.
"""

import argparse
import json
import os
import random
import statistics
import time
from pathlib import Path

# Before NumPy is imported: threads of OpenBLAS that wait for each other make the time of an SVD a matter of luck.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import trgnb  # noqa: E402
from trgnb import staging, traced, traced_engines, trg  # noqa: E402
from trgnb.traced import paths  # noqa: E402

BETA = 0.3
RESULTS = Path(__file__).parent / "results" / "traced.json"


def seconds(function):
    """(result, wall time) of a call."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def bare_loop(ks, beta=BETA):
    """ln Z per spin by a loop of NumPy calls: the same decompositions and contractions, nothing recorded."""
    w = trg.weights(len(ks))
    t, log_norm = trg.first_tensor(beta, trg.NUMPY)
    total = w[0] * log_norm
    for n, k in enumerate(ks, start=1):
        t, log_norm = trg.step(t, k, trg.NUMPY)
        total += w[n] * log_norm
    return total + w[-1] * trg.log_trace(t, trg.NUMPY)


def contestants(ks):
    """{name: function without arguments}."""
    return {
        "bare NumPy loop": lambda: bare_loop(ks),
        "traced-staged value": lambda: trgnb.lnz(BETA, schedule=ks, method="traced-staged"),
        "traced-staged value and gradient": lambda: trgnb.lnz_and_grad(BETA, schedule=ks, method="traced-staged"),
        "traced-eager value": lambda: trgnb.lnz(BETA, schedule=ks, method="traced-eager"),
        "traced-eager value and gradient": lambda: trgnb.lnz_and_grad(BETA, schedule=ks, method="traced-eager"),
    }


def medians(ks, rounds):
    """{name: median time}."""
    functions = contestants(ks)
    times = {name: [] for name in functions}
    for n in range(rounds + 1):
        for name in random.sample(list(functions), len(functions)):
            _, spent = seconds(functions[name])
            if n:  # the first round fills the caches
                times[name].append(spent)
    return {name: statistics.median(spent) for name, spent in times.items()}


def build(ks):
    """Time to record, differentiate and compile the programs of every stage."""
    staging._chain.cache_clear()
    traced_engines.recomputing.cache_clear()
    return seconds(lambda: staging._chain(traced_engines.recomputing, ks, "value", "backward"))[1]


def growth(steps, limit):
    """For 1..steps: rules applied and times of the two transforms of the whole graph; None where the limit stops one."""
    rows = []
    for n in range(1, steps + 1):
        with traced.fold_extents():
            beta = traced.placeholder(())
            y = trg.log_trace(_chained(beta, n), traced)
            calls = paths.rule_calls(y, beta)
            shared = seconds(lambda: traced.grad(y, beta))[1]
            unshared = seconds(lambda: paths.unshared_grad(y, beta, limit))[1] if calls.unshared <= limit else None
        rows.append({"steps": n, **calls._asdict(), "shared s": shared, "unshared s": unshared})
    return rows


def _chained(beta, n):
    t, _ = trg.first_tensor(beta, traced)
    for _ in range(n):
        t, _ = trg.step(t, 2, traced)
    return t


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chi", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5, help="medians are taken over this many (default: 5)")
    options = parser.parse_args()
    ks = trgnb.schedule(options.chi, options.steps)

    building = statistics.median(build(ks) for _ in range(options.rounds))
    counts = [(s.d, s.k, p.value_program.op_count, p.backward_program.op_count) for s in dict.fromkeys(staging.stages(ks)) if s.name == "step"
              for p in [traced_engines.recomputing(s)]]  # fmt: skip
    print("ops of the step programs (d, k, forward, backward):", counts)
    times = medians(ks, options.rounds)
    for name, spent in times.items():
        print(f"{name:36} {1e3 * spent:8.1f} ms")
    statements = [
        ("building all programs, s", building, 0.3),
        ("traced-staged value, of the bare loop's", times["traced-staged value"] / times["bare NumPy loop"], 1.25),
        ("traced-staged gradient, of its value", times["traced-staged value and gradient"] / times["traced-staged value"], 3.0),
        ("traced-eager gradient, of traced-staged's", times["traced-eager value and gradient"] / times["traced-staged value and gradient"], 0.85),
    ]
    for text, figure, limit in statements:
        print(f"{text:42} {figure:6.3f}, wanted at most {limit:.2f}: {'reached' if figure <= limit else 'NOT reached'}")

    rows = growth(8, limit=100_000)
    print("rules applied by the transform of the whole graph, and its time")
    for row in rows:
        unshared = "stopped" if row["unshared s"] is None else f"{row['unshared s']:.2f} s"
        print(f"  {row['steps']} steps: shared {row['shared']:4} ({1e3 * row['shared s']:.0f} ms), unshared {row['unshared']:,} ({unshared})")

    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**vars(options), "build": building, "ops": counts, "times": times, "growth": rows}, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
