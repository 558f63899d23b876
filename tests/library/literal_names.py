"""What mypy says of names of values: `make lint` fails where a line that it should refuse is none.

An ignored error that is none is one: strict mode warns of unused ignores.
"""

import penstock


def right() -> None:
    penstock.plan({}, until="job_graph")


def wrong() -> None:
    penstock.plan({}, until="job_grph")  # type: ignore[arg-type]
