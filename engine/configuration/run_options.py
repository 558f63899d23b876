"""Options of running a script's jobs; a script's own settings win over the configuration's."""

from collections.abc import Callable

from penstock.engine.configuration.option import A_DURATION, Option, Reader
from penstock.engine.configuration.restart_options import RESTART_OPTIONS
from penstock.plans.topology.flink_values import parse_duration, parse_long, parse_map, parse_string

_A_PATH = "paths with commas between"
_BYTES = "a whole number of bytes"


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = parse_long(text)
        if number < least:
            raise ValueError(f"is below {least}")
        return number

    return parse


def _run(
    key: str,
    parse: Callable[[str], object],
    default: object,
    allowed: str,
    meaning: str,
    deprecated: tuple[str, ...] = (),
    is_map: bool = False,
) -> Option:
    return Option(key, parse, default, allowed, meaning, Reader.RUNS, deprecated, is_map=is_map)


BLOCK_BYTES = _run(
    "penstock.exchange.block-bytes", _at_least(1), 1 << 20, _BYTES, "size of a block between tasks"
)
SORT_MEMORY_BYTES = _run(
    "penstock.batch.sort-memory-bytes",
    _at_least(1),
    64 << 20,
    _BYTES,
    "memory that sorting by key may take before it uses the disk",
)
STATE_MEMORY_BYTES = _run(
    "penstock.state.memory-bytes",
    _at_least(1),
    256 << 20,
    _BYTES,
    "memory that the state of a task may take before it uses the disk",
)
SEED = _run("penstock.seed", parse_long, 0, "a 64-bit integer", "seed of the shuffle partitioner")
PENSTOCK_OPTIONS = (BLOCK_BYTES, SORT_MEMORY_BYTES, STATE_MEMORY_BYTES, SEED)
"""Penstock's own, set like Flink's."""

SLOT_REQUEST_TIMEOUT = _run(
    "slot.request.timeout",
    parse_duration,
    300_000,
    A_DURATION,
    "time that a job waits for its slots on a cluster or in a session",
    ("slot.request.timeout.ms",),
)

RUN_OPTIONS = (
    _run("pipeline.auto-watermark-interval", parse_duration, 200, A_DURATION, "time between watermarks"),
    _run(
        "pipeline.global-job-parameters",
        parse_map,
        {},
        "name:value,name:value, or a map",
        "parameters that functions of a job see",
        is_map=True,
    ),
    _run("python.files", parse_string, None, _A_PATH, "Python files, zips and folders for the workers"),
    _run(
        "python.requirements",
        parse_string,
        None,
        "a requirements.txt, and after # a folder of packages",
        "packages to install for the workers",
    ),
    _run(
        "python.archives",
        parse_string,
        None,
        "zips with commas between, each with its folder after #",
        "archives that workers extract",
    ),
    SLOT_REQUEST_TIMEOUT,
    _run("python.executable", parse_string, None, "a path", "the interpreter of the workers"),
    *RESTART_OPTIONS,
    *PENSTOCK_OPTIONS,
)
"""Options that running reads beside those of jobs."""
