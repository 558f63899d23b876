"""Measure a planner in this process; print a JSON line after each plan and at the end.

    python -m penstock.engine.measure.bench.measure_planner --planner process --input PATH [--until LAYER]
        [--repeat-in-process N] [--launched SECONDS] [--digests FILE]

The first plan is cold, the next N are warm. `--launched` is time.monotonic() of the parent process; without
it, start-up excludes Python's own start. With `--digests` nothing is measured: the topologies are planned
once and the digests of their plans are written to FILE.

With `--requests` options come as lines on standard input, each a JSON list. The same process answers each in
turn, and only the first plan is cold.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from penstock.engine.machine.operating_system import die_with_parent, own_peak_bytes, resident_bytes
from penstock.engine.machine.stop_on_signals import process_tree
from penstock.engine.measure.bench.times import Run, is_enough
from penstock.plans.vocabulary import Layer

# Peak memory of a process tree.


@contextmanager
def peak_memory(pid: int | None = None, every: float = 0.5) -> Iterator[list[int]]:
    """Yield a list whose only entry grows to the largest resident memory of the process tree, in bytes.

    `pid` is the root of the tree (default: this process), `every` the interval of samples in seconds.
    """
    root = os.getpid() if pid is None else pid
    peak, stop = [0], Event()

    def sample() -> None:
        while not stop.wait(every):
            peak[0] = max(peak[0], sum(map(resident_bytes, process_tree(root))))

    thread = Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


_FIRST = time.monotonic()


REQUESTS = "--requests"


_started: dict[str, Run] = {}
"""Planners started by this process."""


def main() -> None:
    """Print `start_up_seconds`, `cold`, `warm`, `own_peak_bytes` and `failure`; the last line has `done`."""
    die_with_parent()
    shared_options = [option for option in sys.argv[1:] if option != REQUESTS]
    if len(shared_options) == len(sys.argv) - 1:
        _answer(shared_options)
        return
    for line in sys.stdin:
        _answer([*shared_options, *json.loads(line)])


def _answer(options: Sequence[str]) -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--planner", required=True)
    arguments.add_argument("--input", type=Path, required=True)
    arguments.add_argument("--until", type=Layer, choices=list(Layer)[1:], default=Layer.SLOTS)
    arguments.add_argument("--repeat-in-process", type=int, default=3)
    arguments.add_argument("--launched", type=float, default=_FIRST)
    arguments.add_argument("--digests", type=Path)
    chosen = arguments.parse_args(options)
    answer = _digest(chosen) if chosen.digests else _measure(chosen)
    print(json.dumps({**answer, "done": True}), flush=True)


def _measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Time a cold plan and N warm ones; if the planner has planned before, only N warm ones, at least one."""
    answer: dict[str, Any] = {"start_up_seconds": None, "cold": None, "warm": [], "failure": None}
    cold, warm = chosen.planner not in _started, chosen.repeat_in_process
    start_up = 0.0
    try:
        if cold:
            _started[chosen.planner] = _start(chosen.planner)
            start_up = time.monotonic() - chosen.launched
            answer["start_up_seconds"] = round(start_up, 6)
            print(json.dumps(answer), flush=True)
        more = warm if cold else max(0, warm - 1)
        for place, times in enumerate(_started[chosen.planner].plans(chosen.input, chosen.until, more)):
            if cold and place == 0:
                answer["start_up_seconds"] = round(start_up + times.start_up, 6)
                answer["cold"] = times.as_json()
            else:
                answer["warm"].append(times.as_json())
            print(json.dumps(answer), flush=True)
            if is_enough([warm_plan["seconds"] for warm_plan in answer["warm"]]):
                break
    except Exception as error:
        answer["failure"] = describe_failure(error)
    answer["own_peak_bytes"] = own_peak_bytes()
    return answer


def _start(planner: str) -> Run:
    """Start a planner of engine.measure.bench.planners; its imports are part of start-up."""
    if planner == "flink":
        from penstock.engine.measure.bench.run_flink import FlinkRun

        return FlinkRun()
    from penstock.engine.measure.bench.run_planners import PlannerRun

    return PlannerRun(planner)


def _digest(chosen: argparse.Namespace) -> dict[str, Any]:
    from penstock.engine.planning.plan_beside_flink import digest_plans

    try:
        if chosen.planner not in _started:
            _started[chosen.planner] = _start(chosen.planner)
        digests = digest_plans(_started[chosen.planner].lines(chosen.input, chosen.until))
    except Exception as error:
        return {"failure": describe_failure(error)}
    chosen.digests.write_text(json.dumps(digests))
    return {"failure": None}


def describe_failure(error: BaseException) -> dict[str, str]:
    """Describe class and message without secrets, and without Java and worker stacks of Spark's errors."""
    from penstock.engine.output.redaction import redact

    message = str(error).strip()
    if type(error).__module__.startswith(("py4j", "pyspark")):
        from penstock.engine.spark.describe_spark_error import describe_spark_error

        message = describe_spark_error(error)
    return {"error": getattr(error, "error", type(error).__name__), "message": redact(message)[:2000]}


if __name__ == "__main__":
    main()
