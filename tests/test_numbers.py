"""The numbers gate: pins, reading a build, and every way in which a number or a text can fail to hold."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trgnb import numbers
from trgnb.numbers import Cell, Chapter, Pin, Printed, __main__, _pin, checks, compare, pin, settle, tally
from trgnb.numbers._compare import close, holds
from trgnb.numbers._read import printed_text, read_chapter, toc_pages

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex(r"[a-z][a-z0-9_-]{0,5}(\.[a-z0-9_-]{1,5}){1,3}", fullmatch=True)
tolerances = st.floats(0, 1)
lines = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)


# --- a chapter in a few words ----------------------------------------------------------------------------------


def code(source, *outputs, tags=(), count=1):
    return {
        "cell_type": "code",
        "source": source,
        "metadata": {"tags": list(tags)},
        "execution_count": count,
        "outputs": list(outputs),
    }


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def shown(metadata=None, **data):
    data = {mime.replace("_", "/"): text for mime, text in data.items()}
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}


def error(ename):
    return {"output_type": "error", "ename": ename, "evalue": "at 0x7f00", "traceback": ["/somewhere/x.py"]}


def glued(value, cell=1, rtol=0.0, atol=0.0):
    return shown({"trgnb": {"rtol": rtol, "atol": atol, "cell": cell}}, text_plain=repr(value))


def chapter(*pins, text="", name="trg", **more):
    printed = {"show()": Printed("show()", text)} if text else {}
    return Chapter(name, {pin.name: pin for pin in pins}, printed, **more)


def kinds(accepted, present):
    return [(finding.kind, finding.name) for finding in compare([accepted], [present])]


X = Pin("trg.x", 0.25, rtol=0.0, atol=1e-9)


# --- pin -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5),
        (np.float64(0.5), 0.5),
        (np.float32(0.1), float(np.float32(0.1))),
        (jnp.asarray(0.5), 0.5),
        (np.array(0.5), 0.5),
    ],
)
def test_pin_returns_a_python_float_and_prints_it(value, expected, capsys):
    held = pin("trg.x", value, atol=1e-9)
    assert held == expected and type(held) is float
    assert capsys.readouterr().out == f"trg.x = {expected!r}  (rtol 0, atol 1e-09)\n"


@pytest.mark.parametrize("value", [16, np.int64(16), jnp.asarray(16), True, np.bool_(True), "scan", np.str_("scan")])
def test_pin_of_an_exact_value(value, capsys):
    held = pin("trg.x", value)
    assert held == value and type(held) in (int, bool, str)
    assert capsys.readouterr().out == f"trg.x = {held!r}\n"


@pytest.mark.parametrize("name", ["x", "Trg.x", "trg.", ".x", "trg x.y", "trg.x:y", "trg..x", "4.x", "", None])
def test_pin_refuses_a_name(name):
    with pytest.raises(ValueError, match="chapter.what"):
        pin(name, 1)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "not finite"),
        (-math.inf, "not finite"),
        (np.float64("nan"), "not finite"),
        (jnp.asarray(jnp.nan), "not finite"),
        (1j, "real and the imaginary"),
        (np.complex128(1), "real and the imaginary"),
        (np.zeros(3), r"shape \(3,\)"),
        (jnp.zeros((1, 1)), r"shape \(1, 1\)"),
        (None, "NoneType"),
        ([1.0], "list"),
    ],
)
def test_pin_refuses_a_value(value, why):
    with pytest.raises(ValueError, match=why):
        pin("trg.x", value, atol=1.0)


@pytest.mark.parametrize(
    ("value", "tolerance", "why"),
    [
        (0.5, {}, "needs a tolerance"),
        (0.5, {"rtol": -1e-9}, "rtol=-1e-09"),
        (0.5, {"atol": math.inf}, "atol=inf"),
        (0.5, {"atol": math.nan}, "atol=nan"),
        (16, {"atol": 1}, "exactly: leave out atol"),
        (True, {"rtol": 1e-9}, "exactly: leave out rtol"),
    ],
)
def test_pin_refuses_a_tolerance(value, tolerance, why):
    with pytest.raises(ValueError, match=why):
        pin("trg.x", value, **tolerance)


def test_pin_exactly():
    assert pin("trg.x", 0.5, rtol=0, atol=0) == 0.5


@pytest.fixture
def published(monkeypatch):
    """The outputs that pins publish in a book build, in a shell whose running cell is 3."""
    outputs = []

    def publish(data, metadata):
        outputs.append({"data": data, "metadata": metadata})

    shell = SimpleNamespace(
        displayhook=SimpleNamespace(prompt_count=3), display_pub=SimpleNamespace(publish=publish)
    )
    monkeypatch.setenv("TRGNB_BOOK", "1")
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(_pin, "_pinned", {})
    return outputs


def test_pin_in_the_book_is_glued_with_its_tolerance_and_cell(published, capsys):
    assert pin("trg.x", np.float64(1) / 3, atol=2e-14) == 1 / 3
    assert capsys.readouterr().out == ""
    prefix = "application/papermill.record/"
    assert published == [
        {
            "data": {prefix + "text/plain": "0.3333333333333333"},
            "metadata": {
                "scrapbook": {"name": "trg.x", "mime_prefix": prefix},
                "trgnb": {"rtol": 0.0, "atol": 2e-14, "cell": 3},
            },
        }
    ]


def test_pinned_sentence_is_a_paragraph_where_another_page_quotes_it(published):
    pin("trg.said", "a < b & c")
    ((data, metadata),) = (output.values() for output in published)
    assert list(data.values()) == ["'a < b & c'", "<p>a &lt; b &amp; c</p>"]
    assert {key.rsplit("/", 1)[1] for key in data} == {"plain", "html"}
    assert metadata["trgnb"] == {"rtol": 0.0, "atol": 0.0, "cell": 3}


def test_pin_in_the_book_refuses_a_name_twice(published):
    pin("trg.x", 1)
    with pytest.raises(ValueError, match="trg.x is pinned twice, in cells 3 and 3"):
        pin("trg.x", 1)


def test_pin_in_a_plain_notebook_may_run_again(capsys):
    pin("trg.x", 1)
    pin("trg.x", 2)
    assert capsys.readouterr().out == "trg.x = 1\ntrg.x = 2\n"


@given(value=finite | st.integers() | st.booleans() | st.text(max_size=9), rtol=tolerances, atol=tolerances)
def test_a_pin_survives_the_glue_with_all_its_digits(value, rtol, atol):
    notebook = {"cells": [code("run()")]}
    read = read_chapter("trg", notebook, {"trg.x": glued(value, 1, rtol, atol)}).pins["trg.x"]
    assert read == Pin("trg.x", value, rtol, atol, Cell(1, "run()"))
    assert type(read.value) is type(value)


# --- reading ---------------------------------------------------------------------------------------------------


def test_pins_know_their_cell_and_whether_it_is_tagged_machine():
    cells = [code("a = 1", count=1), code("", count=None), code("\n  # times\nb = 2", count=2, tags=["machine"])]
    read = read_chapter("trg", {"cells": cells}, {"trg.a": glued(1, 1), "trg.b": glued(2, 2)})
    assert read.pins["trg.a"] == Pin("trg.a", 1, cell=Cell(1, "a = 1"))
    assert read.pins["trg.b"] == Pin("trg.b", 2, cell=Cell(2, "# times"), machine=True)
    assert read.standing().pins.keys() == {"trg.a"}


def test_the_text_of_machine_cells_is_not_compared():
    cells = [code("a", stream("1.5 s"), tags=["machine"]), {"cell_type": "markdown", "source": "3.5"}]
    found = read_chapter("trg", {"cells": cells}, {})
    assert (found.pins, found.printed, [said.text for said in found.exempt]) == ({}, {}, ["1.5 s"])


def test_tally_counts_what_is_compared_and_what_is_not():
    cells = [code("a", stream("1.5 s"), tags=["machine"]), code("b", stream("x = 0.25 and 3"), count=2)]
    present = replace(read_chapter("trg", {"cells": cells}, {}), pins={X.name: X})
    said = "2 chapters, 1 pins; 2 of 3 numbers that cells print are compared, 1 stand in cells tagged machine."
    assert tally([present, Chapter("empty", {}, {})]) == said


def test_cells_that_begin_alike_are_numbered():
    cells = [code("show()", stream(str(k)), count=k) for k in (1, 2, 3)]
    assert [*read_chapter("trg", {"cells": cells}, {}).printed] == ["show()", "show() #2", "show() #3"]


def test_printed_text():
    outputs = [
        stream("one\ntw"),
        stream("o\n"),
        stream("careful\n", "stderr"),
        shown(text_plain="<Figure>", image_png="iVBORw0"),
        shown(text_plain="<Markdown object>", text_markdown=["| a |\n", "|---|\n"]),
        shown(text_plain="   a\n0  1", text_html="<td>1</td>"),
        shown({"trgnb": {"compare": "the stable part"}}, text_plain="message of version 3"),
        error("IndexError"),
    ]
    assert printed_text(outputs) == "one\ntwo\ncareful\n| a |\n|---|\n<td>1</td>\nthe stable part\nIndexError"


def test_toc_pages():
    toc = "format: jb-book\nroot: book/index  # first\nparts:\n- caption: A\n  chapters:\n  - file: 'book/trg'\n"
    toc += "  - title: B\n    file: book/staging.md\n    # file: book/old\n  - url: https://x.org/file:y\n"
    assert toc_pages(toc) == ["book/index", "book/trg", "book/staging"]


@pytest.fixture
def book(tmp_path):
    """A folder with the toc and the executed form of a book of one chapter, which pins trg.x = 0.25."""
    (tmp_path / "_toc.yml").write_text("root: book/trg\n")
    executed = tmp_path / "_build" / "jupyter_execute" / "book"
    executed.mkdir(parents=True)
    (executed / "trg.ipynb").write_text(json.dumps({"cells": [code("show()", stream("x = 0.25"))]}))
    (executed / "trg.glue.json").write_text(json.dumps({"trg.x": glued(0.25, atol=1e-9)}))
    return tmp_path


def read(book):
    return numbers.read_build(book / "_build", book / "_toc.yml")


def test_a_page_outside_the_toc_is_not_looked_at(book):
    stale = book / "_build" / "jupyter_execute" / "book" / "old.glue.json"
    stale.write_text(json.dumps({"old.x": glued(math.nan)}))
    stale.with_name("old.ipynb").write_text(json.dumps({"cells": [code("old()")]}))
    held = replace(X, cell=Cell(1, "show()"))
    assert read(book) == [Chapter("trg", {"trg.x": held}, {"show()": Printed("show()", "x = 0.25", Cell(1, "show()"))})]


def test_a_chapter_that_was_not_executed_is_an_error(book):
    (book / "_toc.yml").write_text("root: book/trg\nchapters:\n- file: book/next\n- file: book/prose\n")
    (book / "book").mkdir()
    (book / "book" / "prose.md").write_text("No code.\n")
    (book / "book" / "next.md").write_text("```{code-cell}\n1\n```\n")
    with pytest.raises(FileNotFoundError, match=r"next.ipynb is not there.*`make book`"):
        read(book)


@given(
    st.dictionaries(names, st.tuples(finite | st.integers() | st.booleans() | lines, tolerances, tolerances)),
    st.dictionaries(lines, st.lists(lines, min_size=1).map("\n".join)),
)
def test_accepted_files_are_read_as_they_were_written(tmp_path_factory, pins, texts):
    folder = tmp_path_factory.mktemp("accepted")
    pins = {
        name: Pin(name, value, *(tolerance if isinstance(value, float) else ()))
        for name, (value, *tolerance) in sorted(pins.items())
    }
    chapters = [Chapter("trg", pins, {name: Printed(name, text) for name, text in texts.items()})]
    numbers.write_accepted(folder, chapters)
    assert numbers.read_accepted(folder) == (chapters if pins or texts else [])


def test_accepted_files_have_a_line_per_number_and_go_with_their_chapter(tmp_path):
    numbers.write_accepted(tmp_path, [chapter(Pin("trg.y", 16), X, text="one\ntwo"), chapter(name="prose")])
    assert (tmp_path / "trg.json").read_text() == (
        '{\n  "pins": {\n    "trg.x": {"value": 0.25, "rtol": 0.0, "atol": 1e-09},\n    "trg.y": {"value": 16}\n  },\n'
        '  "text": [\n    {\n      "cell": "show()",\n      "text": [\n        "one",\n        "two"\n      ]\n    }\n  ]\n}\n'
    )
    assert [path.name for path in tmp_path.iterdir()] == ["trg.json"]
    numbers.write_accepted(tmp_path, [])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pins": {"trg.x": {"valu": 1}}, "text": []}'])
def test_a_malformed_accepted_file_is_an_error(tmp_path, text):
    (tmp_path / "trg.json").write_text(text)
    with pytest.raises(ValueError, match=r"trg.json is no file of accepted numbers"):
        numbers.read_accepted(tmp_path)


# --- every way in which a pin does not hold --------------------------------------------------------------------


def test_what_holds():
    machine = Pin("trg.seconds", 1.5, rtol=0.1, machine=True)
    accepted = chapter(X, Pin("trg.k", 16), Pin("trg.same", True), Pin("trg.method", "scan"), text="x = 0.25")
    present = replace(accepted, pins=accepted.pins | {"trg.seconds": machine, "trg.x": replace(X, value=0.25 + 9e-10)})
    assert kinds(accepted, present) == []
    assert [check.name for check in checks([accepted], [present])] == [*present.pins, "show()"]


@pytest.mark.parametrize(
    ("accepted", "present", "kind"),
    [
        (X, None, "missing"),
        (None, X, "new"),
        (X, replace(X, machine=True), "missing"),
        (X, replace(X, value=0.25 + 2e-9), "drifted"),
        (X, replace(X, value=-0.25), "drifted"),
        (X, replace(X, value=math.nan), "not finite"),
        (X, replace(X, value=math.inf), "not finite"),
        (replace(X, value=math.nan), X, "not finite"),
        (replace(X, value=math.nan), replace(X, value=math.nan), "not finite"),
        (replace(X, value=math.inf), replace(X, value=math.inf), "not finite"),
        (replace(X, value=math.nan), None, "not finite"),
        (None, replace(X, value=math.nan, machine=True), "not finite"),
        (X, replace(X, atol=1e-8), "changed tolerance"),
        (X, replace(X, rtol=1e-3), "changed tolerance"),
        (X, replace(X, value=9.0, atol=10.0), "changed tolerance"),
        (replace(X, atol=math.nan), replace(X, atol=math.nan), "drifted"),
        (Pin("trg.x", 1.0, atol=1e-9), Pin("trg.x", 1), "changed type"),
        (Pin("trg.x", 1), Pin("trg.x", True), "changed type"),
        (Pin("trg.x", "1"), Pin("trg.x", 1), "changed type"),
        (Pin("trg.x", 16), Pin("trg.x", 17), "drifted"),
        (Pin("trg.x", True), Pin("trg.x", False), "drifted"),
        (Pin("trg.x", "scan"), Pin("trg.x", "staged"), "drifted"),
    ],
)
def test_what_does_not_hold(accepted, present, kind):
    sides = (chapter(*([side] if side else [])) for side in (accepted, present))
    assert kinds(*sides) == [(kind, "trg.x")]


def test_a_chapter_that_is_gone_fails_with_all_its_numbers():
    gone = compare([chapter(X, text="x = 0.25", name="old")], [chapter(X)])
    assert [(finding.kind, finding.chapter, finding.name) for finding in gone] == [
        ("new", "trg", "trg.x"),
        ("missing", "old", "trg.x"),
        ("missing text", "old", "show()"),
    ]


def test_a_value_glued_without_a_tolerance_is_found():
    glue = {"trg.x": shown(text_plain="0.25"), "figure": shown(text_plain="<Figure>", image_png="iVBORw0")}
    present = read_chapter("trg", {"cells": [code("show()")]}, glue)
    assert kinds(chapter(), present) == [("glued without a tolerance", "trg.x")]


@pytest.mark.parametrize("tags", [["raises-exception"], ["raises-exception", "machine"]])
def test_an_error_cell_that_raises_no_more_is_found(tags):
    raised = read_chapter("trg", {"cells": [code("1 / 0", error("ZeroDivisionError"), tags=tags)]}, {})
    silent = read_chapter("trg", {"cells": [code("1 / 0", tags=tags)]}, {})
    assert kinds(raised, raised) == []
    assert ("raised no error", "1 / 0") in kinds(raised, silent)


def test_a_finding_tells_all():
    present = replace(X, value=0.2500001, cell=Cell(7, "x = run()"))
    [finding] = compare([chapter(X)], [chapter(present)])
    assert str(finding) == (
        "drifted: trg.x\n"
        "  chapter     trg\n"
        "  cell        7, `x = run()`\n"
        "  accepted    0.25  (rtol 0, atol 1e-09)\n"
        "  present     0.2500001  (rtol 0, atol 1e-09)\n"
        "  difference  1.000e-07, allowed 1.000e-09\n"
        "  If the change is meant, `make accept` and say why in the commit; else the code or the chapter is wrong."
    )


@given(finite, tolerances, tolerances)
def test_a_finite_number_holds_itself_and_never_nan(a, rtol, atol):
    assert holds(a, a, rtol, atol)
    assert not holds(a, math.nan, rtol, atol)
    assert not holds(math.nan, a, rtol, atol)
    assert not holds(math.nan, math.nan, rtol, atol)
    assert not holds(a, math.inf, rtol, atol)


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1), st.floats(1e-9, 1), st.floats(0, 3), st.sampled_from([-1, 1]))
def test_a_number_holds_up_to_its_tolerance(a, rtol, atol, share, sign):
    assume(abs(share - 1) > 1e-3)
    assert holds(a, a + sign * share * (atol + rtol * abs(a)), rtol, atol) == (share < 1)


def test_a_zero_has_no_sign():
    assert holds(0.0, -0.0, 0.0, 0.0) and holds(-0.0, 0.0, 0.0, 0.0)


# --- every way in which a text does not hold -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "present"),
    [
        ("x = 0.25", "x = 0.25"),
        ("x = 0.25", "x = 0.26"),  # one unit in the last place: a rounding that flipped
        ("9.999e-06", "1.000e-05"),
        ("0.1", "0.10000000000000003"),
        ("0.30000000000000004", "0.3"),
        ("1000000.1234567", "1000000.1234999"),  # within 1e-9 of itself
        ("[ 0.000  1.]", "[-0.000  1.]"),  # the blank gives way to the sign
        ("[1. 2.]", "[0.99999999 2.        ]"),
        ("nan inf", "nan inf"),
    ],
)
def test_a_text_that_holds(accepted, present):
    assert kinds(chapter(text=accepted), chapter(text=present)) == []


@pytest.mark.parametrize(
    ("accepted", "present", "kind"),
    [
        ("x = 0.25", None, "missing text"),
        (None, "x = 0.25", "new text"),
        ("x = 0.25", "y = 0.25", "changed text"),
        ("x = 0.25", "x = 0.25 0.25", "changed text"),
        ("x = 0.25", "x = nan", "changed text"),
        ("x = nan", "x = inf", "changed text"),
        ("IndexError", "TypeError", "changed text"),
        ("x = 0.25", "x = 0.27", "changed number in text"),
        ("x = 0.25", "x = -0.25", "changed number in text"),
        ("k = 16", "k = 17", "changed number in text"),
        ("k = 16", "k = 16.5", "changed number in text"),
        ("[1. 2.]", "[1. 3.]", "changed number in text"),
        ("1e-16", "2e-16", "changed number in text"),
        ("1.00e-16", "1.02e-16", "changed number in text"),
        ("0.1", "0.10000000000000203e1", "changed number in text"),
        ("(4, 4)", "(4, 16)", "changed number in text"),
        ("float64", "float32", "changed text"),
    ],
)
def test_a_text_that_does_not_hold(accepted, present, kind):
    sides = (chapter(text=side) if side else chapter() for side in (accepted, present))
    assert kinds(*sides) == [(kind, "show()")]


def test_a_text_in_a_cell_now_tagged_machine_is_missing():
    cell = code("show()", stream("0.25"))
    tagged = code("show()", stream("0.25"), tags=["machine"])
    sides = (read_chapter("trg", {"cells": [one]}, {}) for one in (cell, tagged))
    assert kinds(*sides) == [("missing text", "show()")]


def test_a_printed_pin_is_held_by_the_pin():
    loose = Pin("trg.residue", 2.4e-16, rtol=0.0, atol=1e-14)
    accepted, present = chapter(loose, text="2.4e-16"), chapter(replace(loose, value=7.77e-15), text="7.8e-15")
    assert kinds(accepted, present) == []
    # The text has to quote the pin both before and after, and the pin itself has to hold.
    assert kinds(accepted, replace(present, printed=chapter(text="7.9e-15").printed)) == [
        ("changed number in text", "show()")
    ]
    assert kinds(accepted, chapter(replace(loose, value=7.77e-13), text="7.8e-13")) == [("drifted", "trg.residue")]
    machine = replace(loose, value=7.77e-15, machine=True)
    assert ("changed number in text", "show()") in kinds(accepted, chapter(machine, text="7.8e-15"))


def test_a_finding_in_a_text_names_the_number():
    [finding] = compare([chapter(text="a 0.50\nx 0.25")], [chapter(text="a 0.50\nx 0.29")])
    assert ("numbers", "0.25 became 0.29") in finding.facts
    assert "- x 0.25" in str(finding) and "+ x 0.29" in str(finding) and "a 0.50" not in str(finding)


@given(st.floats(-1e3, 1e3), st.integers(1, 9), st.integers(0, 5), st.sampled_from([-1, 1]))
def test_a_printed_number_moves_by_one_unit_and_no_more(x, places, units, sign):
    scaled = round(x * 10**places)
    before, after = (f"{k / 10**places:.{places}f}" for k in (scaled, scaled + sign * units))
    assume(10**places * abs(x) < 1e8)  # else 1e-9 of the number is more than that
    assert close(before, after) == close(after, before) == (units <= 1)


@given(st.integers(), st.integers())
def test_a_printed_integer_does_not_move(a, b):
    assert close(str(a), str(b)) == (a == b)


# --- accepting -------------------------------------------------------------------------------------------------

words = st.sampled_from(["x =", "0.25", "0.26", "0.31", "2.4e-16", "7.8e-15", "16", "nan", "|", "\n"])
texts = st.lists(words, min_size=1, max_size=6).map(" ".join).filter(str.strip)
pins = st.lists(
    st.builds(
        Pin,
        st.sampled_from(["trg.x", "trg.y", "trg.z"]),
        st.sampled_from([0.25, 0.26, 0.31, 2.4e-16, 7.8e-15, 16, True, "a"]),
        atol=st.sampled_from([0.0, 1e-14, 0.02]),
        machine=st.booleans(),
    ),
    max_size=3,
)
chapters = st.builds(lambda name, pins, text: chapter(*pins, text=text, name=name), st.sampled_from("ab"), pins, texts)


@given(st.lists(chapters, unique_by=lambda c: c.name), st.lists(chapters, unique_by=lambda c: c.name))
def test_what_is_accepted_holds_and_stays(accepted, present):
    accepted = [chapter.standing() for chapter in accepted]
    settled = settle(accepted, present)
    assert compare(settled, present) == []
    assert settle(settled, present) == settled


def test_accepting_keeps_the_record_of_what_holds():
    accepted = chapter(X, Pin("trg.k", 16), text="x = 0.25")
    present = chapter(replace(X, value=0.25 + 5e-10), Pin("trg.k", 17), text="x = 0.26")
    assert settle([accepted], [present]) == [chapter(X, Pin("trg.k", 17), text="x = 0.25")]


@pytest.mark.parametrize(
    "present",
    [
        chapter(replace(X, value=math.nan)),
        chapter(replace(X, value=math.inf, machine=True)),
        chapter(unpinned=("trg.x",)),
        chapter(unraised=(Printed("1 / 0", "", Cell(2, "1 / 0")),)),
    ],
)
def test_what_cannot_be_accepted(present):
    with pytest.raises(ValueError, match="This cannot be accepted"):
        settle([], [present])


# --- the command -----------------------------------------------------------------------------------------------


def run(book, action):
    return __main__.main([action, str(book / "_build")])


def test_accept_then_check(book, capsys, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert run(book, "check") == 1
    assert "new: trg.x" in capsys.readouterr().out
    assert run(book, "accept") == 0
    assert "new  trg  trg.x" in capsys.readouterr().out
    assert run(book, "check") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["2 numbers and texts compared, 0 do not hold."]
    assert run(book, "accept") == 0
    assert "Nothing to accept" in capsys.readouterr().out


@pytest.mark.parametrize("ci", ["1", "true", "True"])
def test_accept_is_refused_in_ci(book, capsys, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    assert run(book, "accept") == 1
    assert "CI is set" in capsys.readouterr().err
    assert not (book / "tests").exists()


def test_accept_is_refused_when_a_number_is_not_finite(book, capsys, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    (book / "_build" / "jupyter_execute" / "book" / "trg.glue.json").write_text(json.dumps({"trg.x": glued(math.nan)}))
    assert run(book, "accept") == 1
    assert "not finite: trg.x" in capsys.readouterr().err
    assert not (book / "tests").exists()


def test_check_of_no_book_says_what_to_run(book, capsys):
    (book / "book").mkdir()
    (book / "book" / "trg.md").write_text("```{code-cell}\n1\n```\n")
    assert __main__.main(["check", str(book / "elsewhere")]) == 1
    assert "`make book`" in capsys.readouterr().err


def test_the_command_starts_without_a_warning():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "trgnb.numbers", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "check" in done.stdout and not done.stderr
