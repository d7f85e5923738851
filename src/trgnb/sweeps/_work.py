"""What a worker computes for one beta."""

import threading
import warnings
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from trgnb import methods


class Result(NamedTuple):
    """What a worker found at one beta; c is None where it is not wanted, and all three numbers where it failed."""

    lnz: float | None = None
    u: float | None = None
    c: float | None = None
    warnings: tuple[str, ...] = ()
    failure: str = ""


def compute(beta, ks, method, specific_heat):
    """The ``Result`` at one beta.

    An error is part of it and not raised: it comes with the warnings before it, and needs no pickle.
    """
    with recorded_warnings() as texts:
        try:
            lnz, gradient = map(float, methods.lnz_and_grad(beta, method=method, schedule=ks))
            c = float(methods.specific_heat(beta, method=method, schedule=ks)) if specific_heat else None
            result = Result(lnz, -gradient, c)
        except Exception as error:
            result = Result(failure=describe(error))
    return result._replace(warnings=tuple(dict.fromkeys(texts)))


def describe(error):
    """Type and message of an error or a warning, in one text."""
    return f"{type(error).__name__}: {error}"


_lock = threading.Lock()
_texts = {}  # of each thread that computes, the list of its warnings
_block = None  # the catch_warnings that these threads share


@contextmanager
def recorded_warnings():
    """A list of the warnings of this thread, as texts; those that the filters ignore stay ignored.

    ``warnings.catch_warnings(record=True)`` changes all threads, and executors may run several: the first to enter
    installs the hook, the last to leave removes it.  Other threads' warnings are shown as ever.
    """
    global _block
    thread = threading.get_ident()
    with _lock:
        if not _texts:
            _block = warnings.catch_warnings()
            _block.__enter__()
            warnings.showwarning = partial(_record, warnings.showwarning)
            # "once" would show a warning at the first of many betas, and "error" would end a beta for it.
            warnings.filters[:] = [(action if action == "ignore" else "always", *rest) for action, *rest in warnings.filters]
            warnings.simplefilter("always", append=True)
        _texts[thread] = []
    try:
        yield _texts[thread]
    finally:
        with _lock:
            del _texts[thread]
            if not _texts:
                _block.__exit__(None, None, None)


def _record(show, message, category, *where, **more):
    texts = _texts.get(threading.get_ident())
    if texts is None:
        show(message, category, *where, **more)
    else:
        texts.append(describe(message))
