"""Plan hostile topology lines by all planners: python -m benchmarks.fuzz_lines [--lines 5000] [--seed 0]."""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.plans.topology.hostile_lines import hostile_lines
from tests.plans.topology.planned_alike import PLANNERS, plan_alike


def main(
    lines: Annotated[int, typer.Option("--lines", help="Number of lines.")] = 5_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same lines.")] = 0,
    planner: Annotated[list[str] | None, typer.Option("--planner", help=", ".join(PLANNERS))] = None,
) -> None:
    """Plan hostile lines with each planner, compare the readers' views, and print the counts."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        planned, rejected = plan_alike(list(hostile_lines(seed, lines)), Path(folder), planner or PLANNERS)
    typer.echo(
        f"{lines:,} lines of seed {seed} by {', '.join(planner or PLANNERS)}: {planned:,} planned, "
        f"{rejected:,} rejected, none lost, all alike, in {time.monotonic() - started:.0f} s"
    )


if __name__ == "__main__":
    typer.run(main)
