"""The sweep itself: which betas are left, who computes them, and what is said at the end."""

import json
import math
import warnings
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import closing

import numpy as np
from tqdm import tqdm

from trgnb import ising, methods
from trgnb.sweeps._file import stored
from trgnb.sweeps._table import Row, Table
from trgnb.sweeps._work import Result, compute, describe

# So many failures, and so many warnings, are quoted in the warning at the end.
_QUOTED = 3


def sweep(
    betas, *, chi=16, steps=20, method="unrolled", schedule=None, specific_heat=False, file=None, executor=None, progress=None
):
    """A table of ln Z, u and their errors per spin, a row for each beta: in parallel, and resumed after a kill.

    betas: inverse temperatures J / k_B T (J = 1), a sequence or array of shape (rows,), in any order; one that occurs
      twice is computed once.
    chi, steps, method, schedule: as for ``trgnb.lnz``.
    specific_heat: also the column c, for a method that ``trgnb.specific_heat`` has.
    file: path of a file to which each row is written, and synced to the disk, when it is finished.  What the file has is
      not computed again: after a kill the same call goes on, also with other betas.
    executor: a ``concurrent.futures.Executor`` that computes the betas; None is this process, one after the other.
    progress: True or False for a progress bar on stderr or none; None is a bar where stderr is a terminal.

    Returns a ``trgnb.sweeps.Table`` of ``trgnb.sweeps.Row``, in the order of betas.
    A beta that fails, for whatever reason, is a row with its ``failure`` and NaN, is not in the file, and does not stop the
    others; warnings are kept in the row of their beta.  One RuntimeWarning at the end quotes both.

    Two processes: ``ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))``, in a script below
    ``if __name__ == "__main__":``.  A forked process is refused: it has none of JAX's threads, and waits for them for ever.
    When the sweep's own process is killed, workers of such a pool stay behind, idle: end them too.
    On a cluster: ``dask.distributed.Client(...).get_executor()``, with trgnb installed on every machine
    (``pip install .[cluster]``).  ``OPENBLAS_NUM_THREADS=1`` keeps the workers off each other's cores.
    Every process starts Python and JAX, a second or two, and builds its programs for itself: seconds for the methods of
    JAX, next to nothing for "traced-sectors", the best choice for a sweep.

    Errors: ValueError for betas that are no sequence of real numbers (a number out of range is a row that failed), for bad
    chi, steps, method or schedule, for a file of another sweep, and for a pool that forks; TypeError for an executor that
    is none; RuntimeError for a file that another sweep is writing.  KeyboardInterrupt cancels what is pending.

    >>> trgnb.sweep([0.3, 0.6], chi=8, steps=20, method="traced-eager")
    beta          ln Z  error of ln Z              u  error of u
     0.3  0.7905537870       -5.3e-06  -0.7043801526     1.2e-04
     0.6  1.2101327924        4.0e-07  -1.9090928326    -6.7e-06
    """
    betas = _check_betas(betas)
    _check_executor(executor)
    _, ks = methods._check(ising.BETA_CRITICAL, chi, steps, method, schedule)
    if specific_heat:
        methods.check_second(method)
    # as JSON has them: tuples are lists
    header = json.loads(json.dumps({"method": method, "schedule": ks, "specific_heat": bool(specific_heat)}))
    with stored(file, header) as (done, append):
        distinct = dict.fromkeys(betas)
        pending = [beta for beta in distinct if beta not in done]
        hidden = None if progress is None else not progress  # None is tqdm's word for "unless a terminal"
        bar = tqdm(total=len(distinct), initial=len(distinct) - len(pending), unit="beta", disable=hidden)
        with bar, closing(_finished(executor, pending, (ks, method, bool(specific_heat)))) as results:
            for beta, result in results:
                if not result.failure:
                    append(beta, result)
                done[beta] = result
                bar.update()
    table = Table(_row(beta, done[beta]) for beta in betas)
    _report(table, method, ks, file)
    return table


def _check_betas(betas):
    """The betas as a list of floats; whether each is in the range is for the method to say."""
    try:
        array = np.asarray(list(betas))
    except (TypeError, ValueError):
        array = np.array(None)
    if isinstance(betas, str | bytes | dict) or array.ndim != 1 or (array.size and array.dtype.kind not in "fiu"):
        raise ValueError(f"betas must be a sequence of real numbers, got {betas!r}; for a single one give [beta]")
    return array.astype(np.float64).tolist()


def _check_executor(executor):
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor or None, got {executor!r}; that of a Dask client is "
            "client.get_executor()"
        )
    # The pool has no public name for how it starts its processes.
    context = getattr(executor, "_mp_context", None) if isinstance(executor, ProcessPoolExecutor) else None
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            "the processes of this executor are forked, and JAX, which has threads, may wait for ever in a forked process; "
            'use ProcessPoolExecutor(..., mp_context=multiprocessing.get_context("spawn"))'
        )


def _finished(executor, betas, arguments):
    """The pairs (beta, Result), in the order in which they are finished; closing it cancels what is pending."""
    if executor is None:
        for beta in betas:
            yield beta, compute(beta, *arguments)
        return
    futures = {}
    try:
        for beta in betas:
            try:
                futures[executor.submit(compute, beta, *arguments)] = beta
            except Exception as error:
                # A pool takes nothing more once a worker has died.  One that took nothing at all is the caller's mistake.
                if not futures:
                    raise
                yield beta, Result(failure=describe(error))
        for future in as_completed(futures):
            try:
                result = future.result()
            except Exception as error:  # the worker died, or was taken away
                result = Result(failure=describe(error))
            yield futures[future], result
    finally:
        for future in futures:
            future.cancel()


def _row(beta, result):
    lnz, u, c, texts, failure = result
    if failure:
        return Row(beta, warnings=texts, failure=failure)
    row = Row(beta, lnz, lnz - ising.exact_lnz(beta), u, u - ising.exact_energy(beta), warnings=texts)
    return row if c is None else row._replace(c=c, c_error=c - _exact_specific_heat(beta))


def _exact_specific_heat(beta):
    try:
        return ising.exact_specific_heat(beta)
    except ValueError:  # the critical point
        return math.inf


def _report(table, method, ks, file):
    """One warning for all that went wrong, when everything else is safe."""
    failed = [(row.beta, row.failure) for row in table if row.failure]
    warned = [(row.beta, text) for row in table for text in row.warnings]
    parts = []
    if failed:
        again = "; the same call computes them again" if file is not None else ""
        parts.append(f"{len(failed)} of {len(table)} betas failed, see table.failed{again}: {_quote(failed)}")
    if warned:
        parts.append(f"{len(warned)} warnings, see table['warnings']: {_quote(warned)}")
    if parts:
        parts.append(f"method {method!r}, schedule {ks}")
        warnings.warn("\n".join(parts), RuntimeWarning, stacklevel=3)


def _quote(pairs):
    texts = [f"beta = {beta!r}: {text}" for beta, text in pairs[:_QUOTED]]
    if len(pairs) > _QUOTED:
        texts.append(f"and {len(pairs) - _QUOTED} more")
    return "; ".join(texts)
