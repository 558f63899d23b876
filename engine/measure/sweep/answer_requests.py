"""Measures cells that standard input asks for: `python -m penstock.engine.measure.sweep.answer_requests`.

A request is a line: a JSON list with the JSON of a CellRequest.

What custom planners print goes to standard error, so that only answers are on standard output.
"""

import json
import os
import sys

from penstock.engine.machine.die_with_parent import die_with_parent
from penstock.engine.measure.bench.measure_planner import describe_failure, own_peak_bytes
from penstock.engine.measure.sweep.run_sweep import CellMeter, CellRequest


def main() -> None:
    """Answer each line with an object: `result` or `failure`, and `done`."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    meter = CellMeter()
    for line in sys.stdin:
        (request,) = json.loads(line)
        try:
            answer = {"result": meter.measure(CellRequest(**json.loads(request))), "failure": None}
        except Exception as error:
            answer = {"result": None, "failure": describe_failure(error)}
        answers.write(f"{json.dumps({**answer, 'own_peak_bytes': own_peak_bytes(), 'done': True})}\n")
        answers.flush()


if __name__ == "__main__":
    main()
