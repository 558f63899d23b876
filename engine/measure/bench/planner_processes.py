"""Planners in separate processes: one for each measurement, or one that is kept if it starts slowly."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from penstock.engine.machine.available_memory import available_memory
from penstock.engine.machine.machine import memory_bytes
from penstock.engine.measure.bench.planners import planner_named
from penstock.engine.measure.bench.run_child import (
    Child,
    answer_of,
    ask_child,
    end_child,
    measure_planner_command,
    run_child,
    send_request,
    start_child,
)

Ask = Callable[[str, Sequence[str]], dict[str, Any]]
"""(planner, options of engine.bench.measure_planner) to what ask_child gives."""

Begin = Callable[[str, Sequence[str]], Callable[[], dict[str, Any]]]
"""As Ask, without waiting: what it gives waits for the answer, and asks only then if memory is short
or a planner that is kept has no process yet."""

FREE_SHARE = 0.5
"""Kept processes are ended if less than this share of the memory is left for others."""


@contextmanager
def planner_processes(timeout: float) -> Iterator[tuple[Ask, Begin]]:
    """An Ask and a Begin that give each answer `timeout` seconds; processes end with the block at the latest.

    A planner that is `kept` has one process for all that it is asked, so that Spark starts, and its JVM warms
    up, once. One that fails gets another.
    """
    kept: dict[str, Child] = {}
    at_work: dict[str, int] = {}
    begun: list[Child] = []

    def ask(planner: str, options: Sequence[str]) -> dict[str, Any]:
        if planner not in kept and is_short_of_memory():
            end_idle()
        if not planner_named(planner).kept:
            return run_child(measure_planner_command(planner, *options), timeout)
        if planner not in kept:
            kept[planner] = start_child(measure_planner_command(planner, "--asked"))
        at_work[planner] = send_request(kept[planner], options)
        return answer_of_kept(planner)

    def answer_of_kept(planner: str) -> dict[str, Any]:
        answer = answer_of(kept[planner], at_work.pop(planner), timeout)
        if answer["failure"]:
            end_child(kept.pop(planner))
        return answer

    def is_short_of_memory() -> bool:
        return available_memory().size_bytes < FREE_SHARE * memory_bytes()

    def begin(planner: str, options: Sequence[str]) -> Callable[[], dict[str, Any]]:
        if is_short_of_memory() or (planner_named(planner).kept and planner not in kept):
            return lambda: ask(planner, options)
        if planner in kept:
            at_work[planner] = send_request(kept[planner], options)
            return partial(answer_of_kept, planner)
        child = start_child(measure_planner_command(planner, *options), subprocess.DEVNULL)
        begun.append(child)

        def wait() -> dict[str, Any]:
            try:
                return ask_child(child, None, timeout)
            finally:
                begun.remove(child)
                end_child(child)

        return wait

    def end_idle() -> None:
        for planner in set(kept) - set(at_work):
            end_child(kept.pop(planner))

    try:
        yield ask, begin
    finally:
        for child in (*kept.values(), *begun):
            end_child(child)
