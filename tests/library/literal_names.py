"""mypy knows the names of values: in strict mode an ignored error that it does not find is an error.

Nothing here is called; `make lint` is the test.
"""

import penstock


def right() -> None:
    penstock.plan({}, until="job_graph")


def wrong() -> None:
    penstock.plan({}, until="job_grph")  # type: ignore[arg-type]
