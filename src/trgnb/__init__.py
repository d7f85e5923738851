"""Differentiating the tensor renormalization group."""

import jax

# Before the first array of any chapter: an array made earlier stays float32.
jax.config.update("jax_enable_x64", True)

from trgnb import ising, sectors, svd, traced, trg  # noqa: E402
from trgnb.methods import METHODS, lnz, lnz_and_grad, sector_schedule, specific_heat  # noqa: E402
from trgnb.numbers import pin  # noqa: E402
from trgnb.recorded import recorded  # noqa: E402
from trgnb.sectors import MultipletWarning  # noqa: E402
from trgnb.sweeps import sweep  # noqa: E402
from trgnb.trg import schedule  # noqa: E402

__all__ = [
    "METHODS", "MultipletWarning", "ising", "lnz", "lnz_and_grad", "pin", "recorded", "schedule", "sector_schedule", "sectors",
    "specific_heat", "svd", "sweep", "traced", "trg",
]  # fmt: skip
