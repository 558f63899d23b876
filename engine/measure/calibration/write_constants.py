"""Constants measured on this machine, in the file that --constants takes."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.engine.flink.flink_jars import FLINK_VERSION
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.measure.calibration.calibrate_on_flink import MeasuredTerm, calibrate_on_flink
from penstock.engine.measure.calibration.runtime import Runtime
from penstock.plans.installation import own_version
from penstock.plans.metrics.exchange_costs import TERMS

FORMAT = 1


def calibrate(path: Path, runtime: Runtime, budget: float, report: Callable[[str], None]) -> dict[str, Any]:
    """Measure the terms, write them to `path`, and return what is written.

    On Penstock's runtime no job begins after `budget` seconds. Raises what calibrate_on_flink and
    calibrate_on_penstock raise, and OSError.
    """
    from penstock.engine.measure.bench.describe_machine import describe_machine, describe_versions

    machine = describe_machine()
    if runtime is Runtime.FLINK:
        measured_by = f"Flink {FLINK_VERSION} MiniCluster"
        terms = calibrate_on_flink(report)
    else:
        from penstock.engine.measure.calibration.calibrate_on_penstock import calibrate_on_penstock

        measured_by = f"Penstock {own_version()} on Spark"
        terms = calibrate_on_penstock(report, budget)
    written = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "machine": machine,
        "versions": describe_versions(True),
        "terms": {name: _entry(name, term, measured_by) for name, term in terms.items()},
    }
    with replace_file(path) as file:
        file.write((json.dumps(written, indent=2) + "\n").encode())
    return written


def _entry(name: str, term: MeasuredTerm, measured_by: str) -> dict[str, Any]:
    source = f"measured: {measured_by}, median and quartiles of {term.runs} runs"
    numbers = {key: round(getattr(term, key), 4) for key in ("value", "low", "high")}
    return {**numbers, "unit": TERMS[name].unit, "about": TERMS[name].about, "source": source}
