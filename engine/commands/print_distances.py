"""How close a drawn fleet is to what it was drawn by, as a table beside the output."""

from collections.abc import Sequence

from rich.table import Column

from penstock.engine.output.people import print_table_beside_output
from penstock.engine.output.say import say_beside_output
from penstock.plans.generate.like.fidelity import CLOSE, Distance


def print_distances(distances: Sequence[Distance]) -> None:
    """A row for each distribution, and how many are close; nothing where nothing is compared."""
    if not distances:
        return
    columns = [
        Column("distribution"),
        Column("measure"),
        Column("distance", justify="right"),
        Column("by chance", justify="right"),
        Column(""),
    ]
    rows = [
        (
            one.distribution,
            one.measure,
            f"{one.distance:.3f}",
            f"{one.by_chance:.3f}",
            "close" if one.is_close else "far",
        )
        for one in distances
    ]
    print_table_beside_output(columns, rows)
    close = sum(one.is_close for one in distances)
    say_beside_output(
        f"{close} of {len(distances)} are close: at most {CLOSE}, or what chance explains in 19 of 20 fleets"
    )
