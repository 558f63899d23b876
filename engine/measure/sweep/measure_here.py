"""Cells measured one after the other by a process beside this one, which may crash."""

import json
from collections.abc import Iterator, Sequence

from penstock.engine.measure.bench.run_child import Child, ask_child, end_child, python_command, start_child
from penstock.engine.measure.sweep.grid import Cell
from penstock.engine.measure.sweep.measure_cell import CellRequest
from penstock.engine.measure.sweep.run_sweep import Answer, Measure


def measure_here(request: CellRequest, timeout: float) -> Measure:
    """Measures cells as `request` says, each within `timeout` seconds.

    The process is kept for the next cell, which often has the same topologies. A cell that fails ends it.
    """

    def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Answer]]:
        child: Child | None = None
        try:
            for cell in cells:
                if child is None:
                    child = start_child(python_command("penstock.engine.measure.sweep.answer_requests"))
                asked = request._replace(
                    source=cell.source,
                    options=cell.options,
                    costs=cell.costs,
                    planner=cell.planner,
                    constants=cell.constants,
                )
                answer = ask_child(child, [json.dumps(asked._asdict())], timeout)
                if answer["failure"]:
                    end_child(child)
                    child = None
                yield cell, answer
        finally:
            if child is not None:
                end_child(child)

    return measure
