"""The benchmark of all methods: what it makes of its figures, and the record that the book shows."""

import json
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import trgnb

SPEC = spec_from_file_location("benchmark_methods", Path(__file__).resolve().parents[1] / "benchmarks" / "methods.py")
benchmark = module_from_spec(SPEC)
SPEC.loader.exec_module(benchmark)


def row(steady, prepare=1.0, temp=1.0):
    return {"first": steady + prepare, "prepare": prepare, "steady": steady, "cpu": steady, "temp": temp}


def test_growth_laws():
    tables = {(chi, 20): {"sectors": row(1e-6 * chi**6, temp=chi**4)} for chi in (8, 16, 32)}
    tables |= {(8, steps): {"sectors": row(0.1 * steps)} for steps in (10, 40)}
    law = benchmark.laws(tables, smallest=8)["sectors"]
    assert law["steady ~ chi^"] == pytest.approx(6.0) and law["memory ~ chi^"] == pytest.approx(4.0)
    assert law["first - steady ~ steps^"] == pytest.approx(0.0)
    assert benchmark.laws(tables, smallest=8)["scan"]["steady ~ chi^"] is None


def test_what_would_take_too_long_is_skipped(monkeypatch):
    monkeypatch.setattr(benchmark, "measure", lambda names, ks, rounds, budget: {name: row(1.0) for name in names if name != "scan"})
    *_, (tables, notes) = benchmark.sweep([(8, 20), (24, 20)], rounds=1, budget=60)
    assert list(tables[24, 20]) == [] and len(notes) == len(trgnb.METHODS) - 1
    assert "unrolled at chi = 24, 20 steps, a call of about 730 s" in notes[0]


def test_targets_say_whether_they_are_reached():
    tables = {(16, 20): {"unrolled": row(0.6, temp=100.0), "sectors": row(0.1, temp=60.0)}}
    said = {text: benchmark.verdict(text, *rest) for text, *rest in benchmark.targets(tables)}
    assert said["steady, unrolled / sectors, chi = 16"].endswith("6.00, wanted at least 3.00: reached")
    assert said["memory, sectors / unrolled, chi = 16"].endswith("NOT reached")
    assert "not measured" in said["steady, unrolled / sectors, chi = 32"]


def test_turns_end_with_the_budget(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: 10.0 * next(clock))
    found = benchmark.take_turns(["a"], 5, 25.0, lambda name: name)
    assert found == {"a": ["a", "a"]}


def test_memory_and_empty_caches():
    """The smallest sizes for real: each method builds, runs and has a memory, and nothing is left of it."""
    ks = trgnb.schedule(2, 3)
    for method in ("sectors", "traced-sectors"):
        benchmark.forget()
        run, memory, _ = benchmark.build(method, ks)
        assert float(run(0.44)[1]) == pytest.approx(float(trgnb.lnz_and_grad(0.44, schedule=ks)[1]), abs=1e-12)
        assert memory() > 0
        assert benchmark.methods._ENGINES[method].cache_info().currsize > 0
    benchmark.forget()
    assert benchmark.methods._ENGINES["sectors"].cache_info().currsize == 0


def test_record_has_every_method():
    record = json.loads(files("trgnb").joinpath("benchmark.json").read_text("utf8"))
    tables = {(size["chi"], size["steps"]): size["methods"] for size in record["sizes"]}
    assert list(tables[16, 20]) == list(trgnb.METHODS) == list(record["growth"])
    assert all({"first", "prepare", "steady", "cpu", "temp"} <= set(row) for table in tables.values() for row in table.values())
