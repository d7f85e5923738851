"""Comparison of the present numbers and texts with the accepted ones."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from difflib import ndiff

from ._pin import Scalar
from ._read import Chapter, Pin, Printed

# A printed number: no part of a word (x64, T2) nor of a dotted name (trg.lnz.0.44).
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_POINT = re.compile(r"\.\d")
_PRINTED_RTOL = Decimal("1e-9")


@dataclass(frozen=True)
class Finding:
    """One number or text that does not hold: what is wrong with it, the facts, and what to do."""

    kind: str
    chapter: str
    name: str
    facts: tuple[tuple[str, str], ...]
    advice: str

    def __str__(self) -> str:
        facts = (("chapter", self.chapter), *self.facts)
        return "\n".join(
            [f"{self.kind}: {self.name}", *(f"  {label:<10}  {fact}" for label, fact in facts), f"  {self.advice}"]
        )


@dataclass(frozen=True)
class Check:
    """One number or text that was looked at, and the finding unless it holds."""

    chapter: str
    name: str
    finding: Finding | None

    def __str__(self) -> str:
        return f"{self.chapter}: {self.name}"


def tally(present: Iterable[Chapter]) -> str:
    """Return in words how many numbers the chapters hold, and what share of the printed ones is compared."""
    present = list(present)
    pins = sum(len(chapter.standing().pins) for chapter in present)
    compared = sum(len(_NUMBER.findall(said.text)) for chapter in present for said in chapter.printed.values())
    exempt = sum(len(_NUMBER.findall(said.text)) for chapter in present for said in chapter.exempt)
    share = f"{compared} of {compared + exempt} numbers that cells print are compared"
    return f"{len(present)} chapters, {pins} pins; {share}, {exempt} stand in cells tagged machine."


def compare(accepted: Iterable[Chapter], present: Iterable[Chapter]) -> list[Finding]:
    """Return what does not hold, over the union of the accepted and the present chapters."""
    return [check.finding for check in checks(accepted, present) if check.finding]


def checks(accepted: Iterable[Chapter], present: Iterable[Chapter]) -> Iterator[Check]:
    """Yield one check per number and per printed text, over the union of accepted and present ones.

    A float holds if ``|a - p| <= atol + rtol |a|``, anything else if it is equal and of the same type; its
    tolerance is held as well. A pin in a cell tagged machine has only to be finite.

    A printed text holds if it is literally the same apart from white space and from numbers written with a
    point or an exponent. Such a number may differ by one unit in its last place after the point, or by 1e-9 of
    itself; or by any amount if it is before and after the rounding of one pin of the chapter, which then holds it.
    """
    accepted, present = ({chapter.name: chapter for chapter in side} for side in (accepted, present))
    for name in _union(present, accepted):
        old, new = (side.get(name, Chapter(name, {}, {})) for side in (accepted, present))
        for key in _union(new.pins, old.pins):
            yield Check(name, key, judge_pin(name, old.pins.get(key), new.pins.get(key)))
        for key in _union(new.printed, old.printed):
            both = old.pins, new.standing().pins
            yield Check(name, key, judge_printed(name, old.printed.get(key), new.printed.get(key), *both))
        for key in new.unpinned:
            yield Check(name, key, Finding("glued without a tolerance", name, key, (), "Use trgnb.pin, not glue."))
        for cell in new.unraised:
            facts = (("cell", str(cell.cell)),)
            yield Check(name, cell.name, Finding("raised no error", name, cell.name, facts, _UNRAISED))


def settle(accepted: Iterable[Chapter], present: Iterable[Chapter]) -> list[Chapter]:
    """Return the chapters to accept: the present ones, but what holds keeps its accepted record.

    So accepting on another machine changes no digit within the tolerance, and repeated accepting cannot let a
    number creep. ValueError if something present cannot be accepted at all: it is not finite, has no tolerance,
    or is an error that was not raised.
    """
    present = list(present)
    if wrong := compare([chapter.standing() for chapter in present], present):
        raise ValueError("\n\n".join(["This cannot be accepted:", *map(str, wrong)]))
    accepted = {chapter.name: chapter for chapter in accepted}
    return [_settle(accepted.get(new.name, Chapter(new.name, {}, {})), new.standing()) for new in present]


def _settle(old: Chapter, new: Chapter) -> Chapter:
    pins = {
        key: pin if judge_pin(new.name, old.pins.get(key), pin) else old.pins[key] for key, pin in new.pins.items()
    }
    printed = {
        key: text if judge_printed(new.name, old.printed.get(key), text, pins, new.pins) else old.printed[key]
        for key, text in new.printed.items()
    }
    return Chapter(new.name, pins, printed)


# --- one pin --------------------------------------------------------------------------------------------------

_CHANGED = "If the change is meant, `make accept` and say why in the commit; else the code or the chapter is wrong."
_UNRAISED = "The cell is tagged raises-exception: let it raise, or remove the tag."


def judge_pin(chapter: str, old: Pin | None, new: Pin | None) -> Finding | None:
    """Return what is wrong with a pin, given as accepted and as present, or None if it holds."""
    if verdict := _verdict(old, new):
        return Finding(verdict[0], chapter, (old or new).name, _facts(old, new), verdict[1])
    return None


def _verdict(old: Pin | None, new: Pin | None) -> tuple[str, str] | None:
    """Return (kind, advice), or None if the pin holds."""
    if not all(_finite(pin.value) for pin in (old, new) if pin):
        return "not finite", "A number that is no number is never accepted."
    if new and new.machine:
        advice = "Its cell is tagged machine, which holds no number: move the pin or the tag."
        return ("missing", advice) if old else None
    if not new:
        return "missing", "No cell pins it any more. " + _CHANGED
    if not old:
        return "new", "It has no accepted value yet. " + _CHANGED
    if type(old.value) is not type(new.value):
        return "changed type", _CHANGED
    if (old.rtol, old.atol) != (new.rtol, new.atol):
        return "changed tolerance", _CHANGED
    if not holds(old.value, new.value, old.rtol, old.atol):
        return "drifted", _CHANGED
    return None


def holds(accepted: Scalar, present: Scalar, rtol: float, atol: float) -> bool:
    """Whether `present` is `accepted` within the tolerance; never for NaN. Floats only have a tolerance."""
    if isinstance(accepted, float):
        return abs(accepted - present) <= atol + rtol * abs(accepted)
    return accepted == present


def _finite(value: Scalar) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _facts(old: Pin | None, new: Pin | None) -> tuple[tuple[str, str], ...]:
    facts = []
    if new:
        facts.append(("cell", str(new.cell)))
    for label, pin in (("accepted", old), ("present", new)):
        facts.append((label, f"{pin.value!r}{_held(pin)}" if pin else "none"))
    if old and new and isinstance(old.value, float) and isinstance(new.value, float):
        facts.append(("difference", f"{new.value - old.value:.3e}, allowed {old.atol + old.rtol * abs(old.value):.3e}"))
    return tuple(facts)


def _held(pin: Pin) -> str:
    if isinstance(pin.value, float):
        return f"  (rtol {pin.rtol:g}, atol {pin.atol:g})"
    return f"  ({type(pin.value).__name__})"


# --- one printed text -----------------------------------------------------------------------------------------


def judge_printed(
    chapter: str, old: Printed | None, new: Printed | None, old_pins: dict[str, Pin], new_pins: dict[str, Pin]
) -> Finding | None:
    """Return what is wrong with the text of a cell, given as accepted and as present, or None if it holds."""
    if not new:
        advice = "No cell that begins like this prints anything compared: it is gone, silent or tagged machine. "
        return Finding("missing text", chapter, old.name, (("accepted", _quoted(old.text)),), advice + _CHANGED)
    cell = ("cell", str(new.cell))
    if not old:
        advice = "Pin its numbers, tag the cell machine if they depend on the machine, or: " + _CHANGED
        return Finding("new text", chapter, new.name, (cell, ("present", _quoted(new.text))), advice)
    if _words(old.text) != _words(new.text):
        return Finding("changed text", chapter, new.name, (cell, ("change", _change(old.text, new.text))), _CHANGED)
    pairs = zip(_NUMBER.findall(old.text), _NUMBER.findall(new.text), strict=True)
    wrong = [f"{a} became {p}" for a, p in pairs if not (close(a, p) or governed(a, p, old_pins, new_pins))]
    if wrong:
        facts = (cell, ("numbers", ", ".join(wrong)), ("change", _change(old.text, new.text)))
        return Finding("changed number in text", chapter, new.name, facts, "Pin it with its tolerance? " + _CHANGED)
    return None


def close(accepted: str, present: str) -> bool:
    """Whether two printed numbers agree: by one unit in the last place after the point, or by 1e-9 of themselves."""
    a, p = Decimal(accepted), Decimal(present)
    if a == p:
        return True
    if _whole(accepted) or _whole(present):
        return False
    units = [_unit(token) for token in (accepted, present) if _POINT.search(token)]
    return abs(a - p) <= max(min(units, default=0), _PRINTED_RTOL * abs(a))


def governed(accepted: str, present: str, old_pins: dict[str, Pin], new_pins: dict[str, Pin]) -> bool:
    """Whether two printed numbers are the roundings of one pin, as accepted and as present."""
    if _whole(accepted) or _whole(present):
        return False
    return any(
        _rounds(old_pins[name].value, accepted) and _rounds(new_pins[name].value, present)
        for name in old_pins.keys() & new_pins.keys()
    )


def _whole(token: str) -> bool:
    return token.lstrip("+-").isdigit()


def _unit(token: str) -> Decimal:
    """Return one unit of the last printed place."""
    return Decimal(1).scaleb(Decimal(token).as_tuple().exponent)


def _rounds(value: Scalar, token: str) -> bool:
    """Whether the printed number `token` is the float `value`, rounded."""
    if not (isinstance(value, float) and math.isfinite(value)):
        return False
    return abs(Decimal(value) - Decimal(token)) <= _unit(token) / 2


def _words(text: str) -> list[str]:
    """Return what stands between the numbers of `text`; white space, which moves with a sign, counts as one blank."""
    return [" ".join(words.split()) for words in _NUMBER.split(text)]


def _quoted(text: str) -> str:
    return "\n    ".join(["", *text.split("\n")])


def _change(old: str, new: str) -> str:
    lines = ndiff(old.splitlines(), new.splitlines())
    return "\n    ".join(["", *(line.rstrip("\n") for line in lines if line[0] in "-+?")])


def _union(new: dict, old: dict) -> list[str]:
    """Return the keys of both, the present ones first and in their order."""
    return [*new, *(key for key in old if key not in new)]
