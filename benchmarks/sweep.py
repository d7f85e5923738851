"""Throughput of ``trgnb.sweep`` on one and two processes and on a local Dask cluster, and what a kill -9 loses.

    python benchmarks/sweep.py [--chi 16] [--steps 20] [--betas 24] [--method traced-sectors]

"first s" is the time to the first row, with the start of processes and JAX and whatever the method compiles; betas per
second are counted on warm workers, rows written to a file.  For the kill, a sweep on two processes is killed with all of its
workers when half of its rows are there, and called again.  Also written to benchmarks/results/sweep.json.
"""

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

# Before JAX is imported, here and in the workers: threads of OpenBLAS would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import trgnb  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "sweep.json"


def processes(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@contextmanager
def dask(workers):
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client.get_executor()


EXECUTORS = {
    "no executor": (1, nullcontext),
    "1 process": (1, lambda: processes(1)),
    "2 processes": (2, lambda: processes(2)),
    "Dask, 2 workers": (2, lambda: dask(2)),
}


def measure(workers, start, options, betas, folder):
    """Times of an executor, {column: number}, and the table of the betas."""
    begin = time.perf_counter()
    with start() as executor:
        trgnb.sweep([0.3], **options, executor=executor)
        first = time.perf_counter() - begin
        trgnb.sweep(np.linspace(0.3, 0.6, 2 * workers), **options, executor=executor)  # every worker is warm
        begin = time.perf_counter()
        table = trgnb.sweep(betas, **options, executor=executor, file=Path(folder) / f"{time.time_ns()}")
        running = time.perf_counter() - begin
    assert not table.failed, table
    return {"first": first, "betas per second": len(betas) / running}, table


def kill(options, betas, expected, folder):
    """What is there after a kill -9 at half of the rows, and after the same call again."""
    file = Path(folder) / "killed"
    call = [sys.executable, __file__, "--killed", str(file), json.dumps([betas, options])]
    process = subprocess.Popen(call, start_new_session=True)
    while not (file.exists() and file.read_bytes().count(b"\n") > len(betas) // 2):
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = file.read_bytes()
    finished = before.splitlines()[1 : before.count(b"\n")]
    begin = time.perf_counter()
    with processes(2) as executor:
        table = trgnb.sweep(betas, **options, executor=executor, file=file)
    after = file.read_bytes().splitlines()[1:]
    return {
        "betas": len(betas),
        "rows when killed": len(finished),
        "of them there afterwards": len(set(finished) & set(after)),
        "rows computed by the second call": len(after) - len(finished),
        "rows twice": len(after) - len(betas),
        "second call s": time.perf_counter() - begin,
        "same table as without a kill": table == expected,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chi", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--betas", type=int, default=24, help="how many (default: 24)")
    parser.add_argument("--method", default="traced-sectors", choices=trgnb.METHODS)
    given = parser.parse_args()
    options = {"chi": given.chi, "steps": given.steps, "method": given.method}
    betas = np.linspace(0.3, 0.6, given.betas).tolist()
    # Near the critical point the method warns that rounding decides which values are kept.
    warnings.filterwarnings("ignore", message=r"\d+ warnings, see table")

    print(f"JAX {jax.__version__}, {given.method}, chi = {given.chi}, {given.steps} steps, {given.betas} betas")
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before the start: what else runs takes its share of every figure")
    print(f"{'executor':18}{'first s':>10}{'betas per s':>14}{'speed-up':>11}")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (workers, start) in EXECUTORS.items():
            rows[name], expected = measure(workers, start, options, betas, folder)
            rate = rows[name]["betas per second"]
            print(f"{name:18}{rows[name]['first']:10.2f}{rate:14.2f}{rate / rows['no executor']['betas per second']:11.2f}", flush=True)
        killed = kill(options, betas, expected, folder)
    print("kill -9 at half of the rows, then the same call again")
    for key, value in killed.items():
        print(f"  {key}: {f'{value:.1f}' if isinstance(value, float) else value}")
    RESULTS.parent.mkdir(exist_ok=True)
    record = {"jax": jax.__version__, "load": load, **vars(given), "executors": rows, "kill": killed}
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--killed"]:
        with processes(2) as pool:
            betas, options = json.loads(sys.argv[3])
            trgnb.sweep(betas, **options, executor=pool, file=sys.argv[2])
    else:
        main()
