"""The error of work that does not fit in memory, said before it starts."""

from penstock.engine.machine.available_memory import Available
from penstock.plans.errors import NotEnoughMemoryError


def require_memory(needed_bytes: int, work: str, left: Available, hint: str) -> None:
    """Raise NotEnoughMemoryError if `work`, as people call it, takes more than there is."""
    if needed_bytes > left.size_bytes:
        raise NotEnoughMemoryError(
            f"{work} takes about {shown_bytes(needed_bytes)} of memory; there are "
            f"{shown_bytes(left.size_bytes)}, which is what {left.limited_by} leaves",
            hint,
        )


def shown_bytes(size_bytes: int) -> str:
    """Memory, for people."""
    return f"{size_bytes / 2**30:.2f} GiB"
