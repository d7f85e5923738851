"""Sweeps: one row for each beta, whoever computes it, and nothing lost when a beta, a worker or the sweep itself dies."""

import inspect
import io
import json
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import trgnb
from trgnb import ising, methods
from trgnb.sweeps import Row, Table, _file, _run, _work
from trgnb.sweeps._work import Result

SMALL = {"chi": 4, "steps": 6, "method": "traced-eager"}
BETAS = [0.5, 0.3, 0.44, 0.6]


@pytest.fixture
def computed(monkeypatch):
    """A stand-in for the computation, and the list of the betas that it was asked for."""
    betas = []

    def compute(beta, ks, method, specific_heat):
        betas.append(beta)
        return Result(beta / 3, -math.sqrt(beta), beta * math.pi if specific_heat else None)

    monkeypatch.setattr(_run, "compute", compute)
    return betas


def spawned(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["unrolled", "traced-eager"])
def test_values_are_those_of_lnz_and_grad(method):
    table = trgnb.sweep(BETAS, chi=4, steps=6, method=method)
    assert isinstance(table, Table) and [row.beta for row in table] == BETAS
    for row in table:
        lnz, gradient = trgnb.lnz_and_grad(row.beta, chi=4, steps=6, method=method)
        assert (row.lnz, row.u) == (lnz, -gradient)
        assert row.lnz_error == float(lnz) - ising.exact_lnz(row.beta)
        assert row.u_error == -float(gradient) - ising.exact_energy(row.beta)
        assert math.isnan(row.c) and math.isnan(row.c_error) and row.warnings == () and row.failure == ""


def test_schedule_in_place_of_chi_and_steps():
    ks = trgnb.schedule(4, 6)
    assert trgnb.sweep([0.3], method="traced-eager", schedule=list(ks)) == trgnb.sweep([0.3], **SMALL)


def test_defaults_are_those_of_lnz():
    sweep, lnz = (inspect.signature(function).parameters for function in (trgnb.sweep, trgnb.lnz))
    names = ("chi", "steps", "method", "schedule")
    assert [sweep[name].default for name in names] == [lnz[name].default for name in names]


@pytest.mark.parametrize("method", ["traced-staged", "traced-sectors"])
def test_specific_heat_is_a_column(method, tmp_path):
    betas, options = [0.3, ising.BETA_CRITICAL], {"chi": 4, "steps": 5, "method": method}
    table = trgnb.sweep(betas, **options, specific_heat=True, file=tmp_path / "sweep")
    assert table["c"].tolist() == [trgnb.specific_heat(beta, **options) for beta in betas]
    assert table["c_error"].tolist() == [table[0].c - ising.exact_specific_heat(0.3), -math.inf]
    assert "error of c" in repr(table)
    assert trgnb.sweep(betas, **options, specific_heat=True, file=tmp_path / "sweep") == table


def test_method_without_specific_heat_is_refused_at_once(computed, tmp_path):
    with pytest.raises(ValueError, match="'traced-eager' keeps residuals of first derivatives only"):
        trgnb.sweep(BETAS, method="traced-eager", specific_heat=True, file=tmp_path / "sweep")
    assert computed == [] and not (tmp_path / "sweep").exists()


def test_schedule_of_pairs_is_the_same_one_in_the_file(tmp_path):
    options = {"schedule": trgnb.sector_schedule(0.44, chi=4, steps=5), "method": "traced-sectors", "file": tmp_path / "sweep"}
    table = trgnb.sweep(BETAS, **options)
    assert not table.failed and trgnb.sweep(BETAS, **options) == table


# --- betas ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("betas", [BETAS, tuple(BETAS), np.array(BETAS), np.array(BETAS[::-1])[::-1], iter(BETAS)])
def test_sequences_of_betas(computed, betas):
    assert trgnb.sweep(betas)["beta"].tolist() == BETAS


def test_betas_of_other_types(computed):
    import jax.numpy as jnp

    assert trgnb.sweep(jnp.array([0.5, 0.25]))["beta"].tolist() == [0.5, 0.25]
    assert trgnb.sweep(np.array([0.3], np.float32))["beta"].tolist() == [float(np.float32(0.3))]
    assert trgnb.sweep([1, 2])["beta"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "betas",
    [0.44, np.float64(0.44), "0.44", ["0.3"], [[0.3]], [0.3, [0.4]], [True], [0.3j], None, [None], {0.3: 1}, np.ones((2, 2))],
)
def test_betas_that_are_none(computed, betas, tmp_path):
    with pytest.raises(ValueError, match=r"(?s)betas must be a sequence of real numbers, got .*give \[beta\]"):
        trgnb.sweep(betas, file=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_no_betas(computed, tmp_path):
    for _ in range(2):
        table = trgnb.sweep([], file=tmp_path / "sweep")
        assert table == () and table["u"].shape == (0,) and "beta" in repr(table)
    assert computed == []


def test_equal_betas_are_computed_once(computed, tmp_path):
    table = trgnb.sweep([0.3, 0.5, 0.3], file=tmp_path / "sweep")
    assert computed == [0.3, 0.5] and table["beta"].tolist() == [0.3, 0.5, 0.3] and table[0] == table[2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"chi": 1}, "chi must be"),
        ({"method": "fast"}, "unknown method 'fast'"),
        ({"schedule": (2, 4), "chi": 8}, "either schedule or chi and steps"),
        ({"schedule": (5,)}, "not possible"),
    ],
)
def test_bad_arguments_are_no_rows(computed, arguments, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        trgnb.sweep(BETAS, **arguments, file=tmp_path / "sweep")
    assert computed == [] and not (tmp_path / "sweep").exists()


# --- failures and warnings ------------------------------------------------------------------------


def test_failing_betas_are_rows(tmp_path):
    betas = [0.3, math.nan, 0.5, -1.0, math.nan, 81, 0.4]
    file = tmp_path / "sweep"
    says = "4 of 7 betas failed.*the same call.*beta = nan: ValueError: .* got nan; beta = -1.0: .*and 1 more\nmethod 'traced-eager'"
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=says):
            table = trgnb.sweep(betas, **SMALL, file=file)
        assert [row.beta for row in table if not row.failure] == [0.3, 0.5, 0.4]
        assert [math.isnan(x) for x in table["lnz"]] == [False, True, False, True, True, True, False]
        assert table.failed["failure"][1] == "ValueError: beta must be finite, positive and at most 80, got -1.0"
        assert isinstance(table.failed, Table) and len(table.failed) == 4
    assert len(file.read_text().splitlines()) == 1 + 3


def test_failure_in_the_middle_of_the_computation(monkeypatch, tmp_path):
    lnz_and_grad = methods.lnz_and_grad

    def failing(beta, **options):
        if beta == 0.3:
            warnings.warn("about to fail", UserWarning, stacklevel=1)
            raise FloatingPointError("left the range")
        return lnz_and_grad(beta, **options)

    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="1 of 4 betas failed") as caught:
        patch.setattr(methods, "lnz_and_grad", failing)
        table = trgnb.sweep(BETAS, **SMALL, file=tmp_path / "sweep")
    assert len(caught) == 1 and "UserWarning: about to fail" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert table[1].failure == "FloatingPointError: left the range" and table[1].warnings == ("UserWarning: about to fail",)
    assert trgnb.sweep(BETAS, **SMALL, file=tmp_path / "sweep") == trgnb.sweep(BETAS, **SMALL)


def warning_compute(monkeypatch, pause=0.0):
    def lnz_and_grad(beta, **options):
        for _ in range(2):
            warnings.warn(f"at {beta}", UserWarning, stacklevel=1)
            warnings.warn("at all", UserWarning, stacklevel=1)
            time.sleep(pause)
        warnings.warn("of no interest", DeprecationWarning, stacklevel=1)
        return beta, 0.0

    monkeypatch.setattr(methods, "lnz_and_grad", lnz_and_grad)


def warnings_at(betas):
    return [(f"UserWarning: at {beta}", "UserWarning: at all") for beta in betas]


@pytest.mark.parametrize("action", ["error", "once", "default", "always"])
def test_warnings_are_kept_in_their_rows(monkeypatch, tmp_path, action):
    warning_compute(monkeypatch)
    for _ in range(2):  # the second time from the file
        with pytest.warns(RuntimeWarning, match="4 warnings.*beta = 0.3: UserWarning: at 0.3; beta = 0.3.*; and 1 more"):
            warnings.simplefilter(action)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            table = trgnb.sweep([0.3, 0.5], file=tmp_path / "sweep")
        assert table["warnings"].tolist() == warnings_at([0.3, 0.5])
        assert "UserWarning: at 0.5; UserWarning: at all" in repr(table)


def test_warnings_of_threads_stay_apart(monkeypatch):
    warning_compute(monkeypatch, pause=0.02)
    betas = [n / 10 for n in range(1, 9)]
    with ThreadPoolExecutor(4) as pool, warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        before = warnings.filters, list(warnings.filters), warnings.showwarning
        table = trgnb.sweep(betas, executor=pool)
        assert (warnings.filters, list(warnings.filters), warnings.showwarning) == before
    assert table["warnings"].tolist() == warnings_at(betas)


def test_other_threads_show_their_warnings():
    with pytest.warns(UserWarning, match="elsewhere"), _work.recorded_warnings() as texts:
        thread = threading.Thread(target=warnings.warn, args=("elsewhere", UserWarning))
        thread.start()
        thread.join()
    assert texts == []


# --- the file -------------------------------------------------------------------------------------


def test_rows_are_on_the_disk_when_they_are_finished(monkeypatch, tmp_path):
    file, synced, rows = tmp_path / "sweep", [], []

    def compute(beta, *arguments):
        rows.append((len(file.read_text().splitlines()) - 1, len(synced) - 1))
        return Result(beta, beta)

    monkeypatch.setattr(_run, "compute", compute)
    monkeypatch.setattr(os, "fsync", synced.append)
    trgnb.sweep(BETAS, file=file)
    assert rows == [(0, 0), (1, 1), (2, 2), (3, 3)] and len(synced) == 5


def test_file_gives_every_digit_back(monkeypatch, tmp_path):
    numbers = [0.1 + 0.2, 1 / 3, 5e-324, math.pi * 1e300, np.nextafter(0.44, 1.0).item()]
    monkeypatch.setattr(_run, "compute", lambda beta, *arguments: Result(beta / 7, -beta / 9, None, ('"\n|\u03b2',)))
    with _file.stored(tmp_path / "sweep", {}) as (done, append):
        assert done == {}
        for beta in numbers:
            append(beta, _run.compute(beta))
    with _file.stored(tmp_path / "sweep", {}) as (done, _):
        assert done == {beta: _run.compute(beta) for beta in numbers}


def test_other_betas_go_on_in_the_same_file(computed, tmp_path):
    file = tmp_path / "sweep"
    trgnb.sweep([0.5, 0.3], file=file)
    table = trgnb.sweep([0.4, 0.3, 0.6], file=str(file))
    assert computed == [0.5, 0.3, 0.4, 0.6] and table["beta"].tolist() == [0.4, 0.3, 0.6]
    assert len(trgnb.sweep([0.6, 0.5, 0.4, 0.3], file=file)) == 4 and len(computed) == 4


@pytest.mark.parametrize("specific_heat", [False, True])
def test_resumes_after_a_cut_at_any_byte(computed, monkeypatch, tmp_path, specific_heat):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    file = tmp_path / "sweep"
    options = {"schedule": (2, 4), "specific_heat": specific_heat, "file": file}
    whole = trgnb.sweep(BETAS, **options)
    content = file.read_bytes()
    for cut in range(len(content) + 1):
        file.write_bytes(content[:cut])
        computed.clear()
        assert trgnb.sweep(BETAS, **options) == whole
        assert computed == BETAS[max(content[:cut].count(b"\n") - 1, 0) :]
        assert file.read_bytes() == content


def test_row_cut_by_a_crash_of_the_machine(computed, tmp_path):
    file = tmp_path / "sweep"
    trgnb.sweep([0.3, 0.5], file=file)
    content = file.read_bytes()
    file.write_bytes(content + b"\0" * 40)
    trgnb.sweep([0.3, 0.5], file=file)
    assert computed == [0.3, 0.5] and file.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"steps": 3}, r"schedule is \[2, 4\] in the file and \[2, 4, 4\] in this call"),
        ({"chi": 2, "steps": 2}, r"schedule is \[2, 4\] in the file and \[2, 2\] in this call"),
        ({"steps": 2, "method": "scan"}, "sweep: method is 'unrolled' in the file and 'scan' in this call"),
        ({"steps": 2, "specific_heat": True}, "sweep: specific_heat is False in the file and True in this call"),
    ],
)
def test_file_of_another_sweep_is_refused(computed, tmp_path, arguments, says):
    file = tmp_path / "sweep"
    trgnb.sweep([0.3], steps=2, method="unrolled", file=file)
    content = file.read_bytes()
    with pytest.raises(ValueError, match=f"sweep belongs to another {says if says.startswith('sweep') else 'sweep: ' + says}"):
        trgnb.sweep([0.5], **{"method": "unrolled", **arguments}, file=file)
    assert file.read_bytes() == content and computed == [0.3]


def test_file_of_another_format_is_refused(computed, monkeypatch, tmp_path):
    trgnb.sweep([0.3], file=tmp_path / "sweep")
    monkeypatch.setattr(_file, "FORMAT", 2)
    with pytest.raises(ValueError, match="has format 1 of trgnb.sweep, and .* reads and writes format 2; give another file"):
        trgnb.sweep([0.3], file=tmp_path / "sweep")


@pytest.mark.parametrize(
    "content",
    [b"beta,lnz\n0.3,0.7\n", b"my notes", b"\n", b"5\n", b"{}\n", b"\xff\xfe\n", b'{"trgnb.sweep": 1, "method": "sca'],
)
def test_file_of_something_else_is_refused(computed, tmp_path, content):
    file = tmp_path / "notes"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="notes is no file of trgnb.sweep: it begins with .*give another file"):
        trgnb.sweep([0.3], file=file)
    assert file.read_bytes() == content and computed == []


@pytest.mark.parametrize("line", ["", "rubbish", "{}", "[1]", '{"beta": 0.3, "lnz": null, "u": 1, "c": null, "warnings": []}'])
def test_damaged_line_is_named(computed, tmp_path, line):
    file = tmp_path / "sweep"
    trgnb.sweep(BETAS, file=file)
    lines = file.read_text().splitlines()
    lines[2] = line
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="line 3 of .*sweep is no row of a sweep.*remove the line"):
        trgnb.sweep(BETAS, file=file)


def test_file_is_of_one_sweep_at_a_time(computed, tmp_path):
    with _file.stored(tmp_path / "sweep", {}), pytest.raises(RuntimeError, match="another sweep is writing .*sweep: wait"):
        trgnb.sweep(BETAS, file=tmp_path / "sweep")
    assert computed == []


def test_folder_that_is_not_there(computed, tmp_path):
    with pytest.raises(FileNotFoundError):
        trgnb.sweep(BETAS, file=tmp_path / "nowhere" / "sweep")
    assert computed == []


# --- kills ----------------------------------------------------------------------------------------


def test_kill_loses_nothing_that_is_finished(tmp_path):
    file = tmp_path / "sweep"
    options = {"chi": 8, "steps": 12, "method": "traced-eager"}
    betas = [n / 100 for n in range(20, 60)]
    program = f"import trgnb; trgnb.sweep({betas}, **{options}, file={str(file)!r})"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_bytes().count(b"\n") > 5):
            assert process.poll() is None and time.monotonic() < deadline, "the sweep ended or hangs"
            time.sleep(0.005)
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL
    killed = file.read_bytes()
    finished = killed.count(b"\n") - 1
    assert 5 <= finished < len(betas)
    table = trgnb.sweep(betas, **options, file=file)
    lines = file.read_bytes().splitlines()
    assert lines[: finished + 1] == killed.split(b"\n")[: finished + 1]
    assert [row["beta"] for row in rows_in(file)] == betas  # none twice
    assert table == trgnb.sweep(betas, **options)


def test_interrupt_keeps_the_file(computed, monkeypatch, tmp_path):
    compute = _run.compute

    def interrupted(beta, *arguments):
        if beta == BETAS[2]:
            raise KeyboardInterrupt
        return compute(beta, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_run, "compute", interrupted)
        trgnb.sweep(BETAS, file=tmp_path / "sweep")
    assert computed == BETAS[:2]
    trgnb.sweep(BETAS, file=tmp_path / "sweep")
    assert computed == BETAS


def test_interrupt_cancels_what_is_pending(monkeypatch, tmp_path):
    started, go_on = [], threading.Event()

    def compute(beta, *arguments):
        started.append(beta)
        if beta == BETAS[1]:
            raise KeyboardInterrupt
        if beta in BETAS[2:]:
            go_on.wait(10)
        return Result(beta, beta)

    monkeypatch.setattr(_run, "compute", compute)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            trgnb.sweep(BETAS, executor=pool, file=tmp_path / "sweep")
        go_on.set()
    assert BETAS[3] not in started
    assert {row["beta"] for row in rows_in(tmp_path / "sweep")} <= set(BETAS[:1])


def rows_in(file):
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


# --- executors ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference():
    return trgnb.sweep(BETAS, **SMALL)


def test_two_processes(reference, tmp_path):
    with spawned(2) as pool:
        assert trgnb.sweep(BETAS, **SMALL, executor=pool, file=tmp_path / "sweep") == reference
        with pytest.warns(RuntimeWarning, match="1 of 1 betas failed.*beta = 99.0: ValueError: beta must be"):
            assert trgnb.sweep([99.0], **SMALL, executor=pool)[0].failure.startswith("ValueError: beta must be finite")
    assert sorted(row["beta"] for row in rows_in(tmp_path / "sweep")) == sorted(BETAS)
    # complete: the executor, shut down by now, is not asked
    assert trgnb.sweep(BETAS, **SMALL, executor=pool, file=tmp_path / "sweep") == reference


def test_local_dask_cluster(reference, tmp_path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    with cluster, distributed.Client(cluster) as client:
        executor = client.get_executor()
        assert trgnb.sweep(BETAS, **SMALL, executor=executor, file=tmp_path / "sweep") == reference
        with pytest.warns(RuntimeWarning, match="1 of 2 betas failed.*beta = nan: ValueError"):
            table = trgnb.sweep([0.3, math.nan], **SMALL, executor=executor)
        assert table[0] == reference[1] and table[1].failure
        with pytest.raises(TypeError, match=r"that of a Dask client is client.get_executor\(\)"):
            trgnb.sweep(BETAS, executor=client)


def test_threads(reference):
    with ThreadPoolExecutor(3) as pool:
        assert trgnb.sweep(BETAS, **SMALL, executor=pool) == reference


def dies(beta, *arguments):
    if beta == BETAS[2]:
        os._exit(1)
    return Result(beta, -beta)


def test_worker_that_dies(monkeypatch, computed, tmp_path):
    monkeypatch.setattr(_run, "compute", dies)
    file = tmp_path / "sweep"
    says = "2 of 4 betas failed.*0.44: BrokenProcessPool: .*0.6: BrokenProcess"
    with spawned(1) as pool, pytest.warns(RuntimeWarning, match=says):
        table = trgnb.sweep(BETAS, executor=pool, file=file)
    assert [bool(row.failure) for row in table] == [False, False, True, True]
    monkeypatch.setattr(_run, "compute", lambda beta, *arguments: computed.append(beta) or Result(beta, -beta))
    assert not trgnb.sweep(BETAS, file=file).failed and computed == BETAS[2:]


def test_pool_that_breaks_while_betas_are_submitted(computed):
    class Breaking(ThreadPoolExecutor):
        def submit(self, function, beta, *arguments):
            if beta == BETAS[2]:
                raise RuntimeError("broken")
            return super().submit(function, beta, *arguments)

    with Breaking(1) as pool, pytest.warns(RuntimeWarning, match="1 of 4 betas failed.*0.44: RuntimeError: broken"):
        table = trgnb.sweep(BETAS, executor=pool)
    assert computed == [0.5, 0.3, 0.6] and len(table.failed) == 1


def test_executor_that_was_shut_down():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        trgnb.sweep(BETAS, executor=pool)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="nothing forks here")
def test_forked_processes_are_refused():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with pytest.raises(ValueError, match='processes of this executor are forked.*get_context."spawn"'):
            trgnb.sweep(BETAS, executor=pool)


@pytest.mark.parametrize("executor", [2, "processes", Executor])
def test_executor_that_is_none(executor):
    with pytest.raises(TypeError, match="executor must be a concurrent.futures.Executor or None, got"):
        trgnb.sweep(BETAS, executor=executor)


# --- progress and table ---------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "progress", "shown"),
    [(io.StringIO, None, False), (io.StringIO, True, True), (Terminal, None, True), (Terminal, False, False)],
)
def test_progress_bar(computed, monkeypatch, capsys, tmp_path, stream, progress, shown):
    trgnb.sweep(BETAS[:3], file=tmp_path / "sweep", progress=False)
    stderr = stream()
    monkeypatch.setattr(sys, "stderr", stderr)
    trgnb.sweep(BETAS, file=tmp_path / "sweep", progress=progress)
    if shown:
        assert "3/4" in stderr.getvalue() and "4/4" in stderr.getvalue()
    else:
        assert stderr.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_columns_rows_and_slices(computed):
    table = trgnb.sweep(BETAS)
    assert table["u"].dtype == np.float64 and table["u"].tolist() == [row.u for row in table]
    assert table[-1] == table[3] and isinstance(table[0], Row)
    assert isinstance(table[1:], Table) and table[1:]["beta"].tolist() == BETAS[1:]
    assert table["failure"].tolist() == [""] * 4
    assert pickle.loads(pickle.dumps(table))["u"].tolist() == table["u"].tolist()
    with pytest.raises(KeyError, match="no column 'energy'; there are beta, lnz, lnz_error, u, "):
        table["energy"]


def test_table_as_text():
    table = Table([Row(0.5, 1.0, -1e-5, -1.5, 0.25), Row(12.25, failure="E: a|b\nc")])
    assert repr(table) == textwrap.dedent("""\
         beta          ln Z  error of ln Z              u  error of u  note
          0.5  1.0000000000       -1.0e-05  -1.5000000000     2.5e-01
        12.25           nan            nan            nan         nan  E: a|b c""")
    assert table._repr_markdown_().splitlines()[-1] == "| 12.25 | nan | nan | nan | nan | E: a\\|b c |"


def test_long_table_is_printed_by_its_ends():
    table = Table(Row(float(n)) for n in range(100))
    lines = repr(table).splitlines()
    assert len(lines) == 22 and lines[11].split() == ["..."] * 5 and lines[-1].split()[0] == "99"
