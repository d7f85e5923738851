"""Pins: the numbers of a running chapter, each with the tolerance that it is held to."""

import math
import os
import re
from html import escape

Scalar = bool | int | float | str

# What myst-nb's `glue` publishes, so that {glue:text} quotes a pin without this package importing myst-nb.
GLUE_PREFIX = "application/papermill.record/"

_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+")
_pinned: dict[str, int] = {}  # name -> cell, of this kernel


def pin(name: str, value, *, rtol: float | None = None, atol: float | None = None) -> Scalar:
    """Record a number of the running chapter, with its tolerance, and return it as a Python scalar.

    In the book build the number is kept with all its digits: prose and tables quote it by
    ``{glue:text}`name:.3e```, and the numbers gate holds it to ``|accepted - present| <= atol + rtol |accepted|``.
    In a plain notebook or a script it is printed. Integers, booleans and strings are compared exactly.

    ``name`` is dotted and in lower case, ``chapter.what`` or ``chapter.what.where``, such as
    ``trg.lnz_err.0.44``. ``value`` is one number: of Python, NumPy or JAX. A float needs ``rtol`` or ``atol`` or
    both (``rtol=0, atol=0`` is exact equality); choose them by what moves the last digits, and never pin
    what has no unique value, such as the entries of singular vectors.

    ValueError if the name or the tolerance is malformed, if the value is not finite or not one real number,
    or if the book build meets the same name twice.
    """
    _check_name(name)
    value = _scalar(name, value)
    rtol, atol = _tolerance(name, value, rtol, atol)
    if shell := _book_shell():
        _publish(shell, name, value, rtol, atol)
    else:
        held = f"  (rtol {rtol:g}, atol {atol:g})" if isinstance(value, float) else ""
        print(f"{name} = {value!r}{held}")
    return value


def _check_name(name: str) -> None:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(
            f"name={name!r} is no name for a pin: use lower case, dotted, 'chapter.what' or 'chapter.what.where', "
            "of a-z, 0-9, _ and - (a colon would start the format in {glue:text})"
        )


def _scalar(name: str, value) -> Scalar:
    """Return `value` as a Python scalar: the repr of a NumPy or JAX scalar does not survive as text."""
    if getattr(value, "ndim", 0):
        raise ValueError(f"{name}: value has shape {value.shape}; a pin is one number, so pin its entries one by one")
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, Scalar):
        raise ValueError(
            f"{name}: value={value!r} is of type {type(value).__name__}; a pin is one float, int, bool or str "
            "(for a complex number pin the real and the imaginary part)"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
            f"{name}: value={value!r} is not finite, and NaN compares with nothing. To show that a result is NaN, "
            "pin the fact: pin(name, bool(isnan(x)))"
        )
    return value


def _tolerance(name: str, value: Scalar, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """Return (rtol, atol), both finite and >= 0; both are zero where the comparison is exact."""
    given = {key: tol for key, tol in (("rtol", rtol), ("atol", atol)) if tol is not None}
    if not isinstance(value, float) and given:
        raise ValueError(
            f"{name}: {value!r} is of type {type(value).__name__}, which is compared exactly: leave out "
            f"{' and '.join(given)}, or pin float(value)"
        )
    if isinstance(value, float) and not given:
        raise ValueError(
            f"{name}: a float needs a tolerance. Give atol= or rtol= by what moves its last digits, such as "
            "atol=2e-14 for ln Z and atol=1e-11 for a gradient, or rtol=0, atol=0 if it must not move at all"
        )
    for key, tol in given.items():
        if not 0 <= tol < math.inf:
            raise ValueError(f"{name}: {key}={tol!r}: a tolerance is finite and >= 0")
    return float(rtol or 0), float(atol or 0)


def _book_shell():
    """Return the IPython shell if the book is being built, else None."""
    if os.environ.get("TRGNB_BOOK") != "1":
        return None
    from IPython import get_ipython

    return get_ipython()


def _publish(shell, name: str, value: Scalar, rtol: float, atol: float) -> None:
    """Publish the pin as a glued output, whose metadata carry the tolerance and the number of the cell."""
    cell = shell.displayhook.prompt_count  # n of In[n]; execution_count is already n + 1 in newer IPython
    if name in _pinned:
        raise ValueError(f"{name} is pinned twice, in cells {_pinned[name]} and {cell}: one name is one number")
    _pinned[name] = cell
    data = {GLUE_PREFIX + "text/plain": repr(value)}
    if isinstance(value, str):  # a sentence that another page quotes with {glue:any} is a paragraph there
        data[GLUE_PREFIX + "text/html"] = f"<p>{escape(value)}</p>"
    shell.display_pub.publish(
        data=data,
        metadata={
            "scrapbook": {"name": name, "mime_prefix": GLUE_PREFIX},
            "trgnb": {"rtol": rtol, "atol": atol, "cell": cell},
        },
    )
