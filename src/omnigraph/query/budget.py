"""What a query may use: time, and memory for what it has to keep.

Operators ask before they make or keep rows. A budget that is used up is a clear error that names
the operator; the process is never taken down.
"""

from __future__ import annotations

import time

from msgspec import Struct, field

from omnigraph.errors import ResourceLimit

#: Rows that an operator makes at a time.
BLOCK_ROWS = 1 << 20


class Budget(Struct):
    """The limits of one query, and what it has used of them.

    Attributes:
        seconds: How long it may run; None is without limit.
        bytes: How much it may keep in memory; None is without limit.
    """

    seconds: float | None = None
    bytes: int | None = None
    kept: int = 0
    _started: float = field(default_factory=time.monotonic)

    def check_time(self, operator: object) -> None:
        """Stop when the time is over; `operator` is told as a text.

        Raises:
            ResourceLimit: It is.
        """
        if self.seconds is not None and time.monotonic() - self._started > self.seconds:
            raise ResourceLimit(
                f"the query ran longer than {self.seconds:g} s, in: {operator}. Make the pattern"
                " more selective, add a limit, or allow more time",
                resource="seconds",
                limit=self.seconds,
            )

    def keep(self, size: int, operator: str) -> None:
        """Account for memory that stays in use until the query ends.

        Raises:
            ResourceLimit: It would be too much.
        """
        self.kept += size
        if self.bytes is not None and self.kept > self.bytes:
            raise ResourceLimit(
                f"the query needs more than {self.bytes >> 20} MiB, in: {operator}. Make the"
                " pattern more selective, return fewer columns, add a limit, or allow more memory",
                resource="bytes",
                limit=self.bytes,
            )
