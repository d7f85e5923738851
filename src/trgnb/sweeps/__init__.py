"""Many betas at once: a table that is computed by any executor and survives being killed."""

from trgnb.sweeps._run import sweep
from trgnb.sweeps._table import Row, Table

__all__ = ["Row", "Table", "sweep"]
