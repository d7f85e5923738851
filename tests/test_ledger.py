"""The ledger of claims: verdicts, and the errors that keep it complete and honest."""

import numpy as np
import pytest

from trgnb.ledger import Ledger
from trgnb.recorded import claims, recorded

KINDS = {"value", "error", "grad", "text", "property", "count", "machine"}


@pytest.fixture
def ledger():
    return Ledger()


def test_claims_say_what_they_are():
    assert len(claims()) == 45
    for name, claim in claims().items():
        assert claim.kind in KINDS and claim.system in {"exact", "jax", "traced", "eager", "both"}, name
        assert claim.what and claim.figures, name
        if claim.kind in {"value", "grad", "error"}:
            assert claim.atol or claim.rtol, name


def test_recorded_figures():
    assert recorded("staging.lnz.0.30") == 0.790559063800966
    assert recorded("staging.agree", "grad") == 2.4e-12
    with pytest.raises(KeyError, match="no recorded claim 'staging'.*staging.lnz.0.30"):
        recorded("staging")
    with pytest.raises(KeyError, match="has the figures lnz, grad"):
        recorded("staging.agree")


def test_within_the_tolerance(ledger):
    ledger.number("staging.lnz.0.30", 0.790559063800966 + 1.5e-14)
    entry = ledger.entries["staging.lnz.0.30"]
    assert entry.verdict == "reproduced" and entry.difference == pytest.approx(1.5e-14, rel=0.05)


@pytest.mark.parametrize("here", [0.790559063800966 + 3e-14, np.nan])
def test_beyond_the_tolerance(ledger, here):
    with pytest.raises(AssertionError, match="'staging.lnz.0.30' differs without a reason"):
        ledger.number("staging.lnz.0.30", here)
    ledger.number("staging.lnz.0.30", here, because="a test")
    assert ledger.entries["staging.lnz.0.30"][3:] == ("differs", "a test")


def test_a_reason_without_a_difference(ledger):
    with pytest.raises(AssertionError, match="agrees, but a reason is given: none"):
        ledger.number("staging.lnz.0.30", 0.790559063800966, because="none")


def test_several_figures(ledger):
    old = np.array(recorded("staging.lnz_err"))
    ledger.number("staging.lnz_err", old * 1.001)  # the claim allows 2e-3
    assert ledger.entries["staging.lnz_err"].verdict == "reproduced"
    with pytest.raises(AssertionError):
        ledger.number("staging.lnz_err", old * [1, 1, 1, 1, 1.01])
    ledger.number("staging.lnz_err", old + 1e-6, atol=[1e-5] * 5)
    with pytest.raises(ValueError, match=r"has figures of shape \(5,\), got \(2,\)"):
        ledger.number("staging.lnz_err", [1.0, 2.0])


def test_nan_equals_only_nan(ledger):
    value, nan = recorded("svd.sqrt_all4.traced")
    ledger.number("svd.sqrt_all4.traced", [value, nan])
    assert ledger.entries["svd.sqrt_all4.traced"].verdict == "reproduced"
    with pytest.raises(AssertionError):
        ledger.number("svd.sqrt_all4.traced", [value, 1.0])


def test_facts_and_machines(ledger):
    ledger.fact("svd.eigh_ok", True, "no error")
    with pytest.raises(AssertionError, match="differs without a reason: an error"):
        ledger.fact("svd.eigh_ok", False, "an error")
    ledger.machine("staging.build", "31")
    assert [e.verdict for e in ledger.entries.values()] == ["reproduced", "machine"]
    with pytest.raises(KeyError, match="no claim 'svd'"):
        ledger.fact("svd", True, "")


def test_a_claim_without_an_entry(ledger):
    names = list(claims())
    for name in names[:-1]:
        ledger.machine(name, "")
    with pytest.raises(LookupError, match=f"without a live counterpart: {names[-1]}$"):
        ledger.close()
    ledger.machine(names[-1], "")
    assert ledger.close() == {"reproduced": 0, "differs": 0, "machine": 45}


def test_rows(ledger):
    ledger.number("staging.op_counts", [44, 179, 1186], because="another library")
    for name in claims():
        if name not in ledger.entries:
            ledger.machine(name, "")
    ((what, old, here, verdict),) = ledger.rows("differs", prefix="staging")
    assert what.startswith("ops of a step program") and old == "40, 204, 1330" and here == "44, 179, 1186"
    assert verdict == "differs, 1e+02: another library"
    ledger = Ledger()
    ledger.number("staging.lnz.0.30", 0.790559063800966)
    for name in claims():
        if name not in ledger.entries:
            ledger.machine(name, "")
    assert ledger.rows("reproduced")[0][2:] == ["0.790559063800966", "reproduced, 0e+00 (2e-14)"]

