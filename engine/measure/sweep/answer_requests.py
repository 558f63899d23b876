"""Measure cells in a process, `python -m penstock.engine.measure.sweep.answer_requests`.

Each line of standard input is a request: a JSON list with the JSON of a CellRequest.

Output of custom planners goes to standard error, so that standard output has only answers.
"""

import json
import os
import sys

from penstock.engine.machine.operating_system import die_with_parent, own_peak_bytes
from penstock.engine.measure.bench.measure_planner import describe_failure
from penstock.engine.measure.sweep.run_sweep import CellMeter, CellRequest


def main() -> None:
    """Answer each line with an object that has `result` or `failure`, and `done`."""
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
