"""Measurements as engine.bench.run_benchmarks yields them, made up."""

from typing import Any

from penstock.engine.measure.bench.print_results import answers
from tests.project.hostile_text import HOSTILE


def times(planning: float, read: float | None = None) -> dict[str, Any]:
    layers = {"stream_graph": planning * 0.3, "job_graph": planning * 0.7}
    seconds = planning + (read or 0)
    return {
        "read": read,
        "layers": layers,
        "hand_over": None,
        "other": None,
        "planning": planning,
        "seconds": seconds,
    }


def record(planner: str, planning: float | None, **other) -> dict[str, Any]:
    """Cold takes twice as long as warm; None is a failure."""
    found = {
        "suite": "fleet",
        "size": 1000,
        "operators": other.get("size", 1000),
        "topologies": 83,
        "planner": planner,
        "repetition": 0,
        "load_average": 0.5,
        "start_up_seconds": 1.5,
        "cold": None if planning is None else times(2 * planning, 0.25),
        "warm": [] if planning is None else [times(planning, 0.125)],
        "failure": None if planning else {"error": "StackOverflowError", "message": "<none> & so on"},
        "peak_memory_bytes": 2**30,
        "cpu_seconds": 3.5,
        "wall_seconds": 2.5,
        "others_cores": 0.02,
        "stolen_cores": 0.0,
    }
    return found | other


def results(
    measurements: list[dict[str, Any]],
    summary: list[dict[str, Any]],
    equality: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    planners = list(dict.fromkeys(m["planner"] for m in measurements))
    return {
        "format": 1,
        "date": "2026-11-21 13:00:00 UTC",
        "command": "penstock bench",
        "machine": {
            "platform": "Linux",
            "processor": "A <processor>",
            "cores": 2,
            "memory_bytes": 2**34,
            "load_average": [0.5, 0.4, 0.3],
        },
        "versions": {"python": "3.11.7", "penstock": "0.1.0"},
        "until": "slots",
        "repeat": 1,
        "repeat_in_process": 1,
        "timeout_seconds": 600,
        "options": {},
        "planners": planners,
        "includes": {planner: f"what {planner} includes" for planner in planners},
        "unavailable": {"other": "not installed: no module other"},
        "summary": summary,
        "equality": equality or [],
        "measurements": measurements,
        "answers": answers(summary),
        "doubts": ["1 repetition cannot distinguish noise from a difference: --repeat 3 or more"],
    }


def hostile_results() -> dict[str, object]:
    failure = {"error": HOSTILE, "message": HOSTILE}
    row = {
        "suite": HOSTILE, "size": 0, "operators": 1, "planner": "process", "cold": None, "warm": None,
        "start_up_seconds": None, "cpu_seconds": None, "points": [], "interval": None, "spread": None,
        "ratio_interval": None, "ratio_to": None, "operators_per_second": None, "ratio": None,
        "peak_memory_bytes": None, "failures": [failure], "repetitions": 1,
    }  # fmt: skip
    said = {"answers": [HOSTILE], "doubts": [HOSTILE]}
    pair = {"planners": ["a", "b"], "layer": "slots", "topologies": 1, "differing": 1, "first": HOSTILE}
    return {
        **said, "summary": [row], "unavailable": {"flink": HOSTILE}, "planners": ["process"],
        "includes": {"process": "x"},
        "equality": [{"suite": HOSTILE, "operators": 1, "pairs": [pair], "failures": {"a": failure}}],
        "measurements": [{**row, "failure": failure}], "date": "now", "until": "slots", "repeat": 1,
        "repeat_in_process": 1, "versions": {"penstock": HOSTILE}, "options": {HOSTILE: HOSTILE},
        "machine": {"platform": HOSTILE, "processor": HOSTILE,
                    "cores": 1, "memory_bytes": 1, "load_average": [1]},
    }  # fmt: skip
