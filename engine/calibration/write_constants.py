"""Constants measured on this machine, in the file that --constants takes."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.engine.calibration.calibrate_on_flink import MeasuredTerm, calibrate_on_flink
from penstock.engine.flink.flink_jars import FLINK_VERSION
from penstock.engine.machine.replace_file import replace_file
from penstock.plans.metrics.exchange_costs import TERMS

FORMAT = 1


def calibrate(path: Path, report: Callable[[str], None]) -> dict[str, Any]:
    """Measure the terms on Flink's MiniCluster, write them to `path`, and return what is written.

    Raises what calibrate_on_flink raises, and OSError.
    """
    from penstock.engine.bench.describe_machine import describe_machine, describe_versions

    machine = describe_machine()
    terms = calibrate_on_flink(report)
    written = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "machine": machine,
        "versions": describe_versions(True),
        "terms": {name: _entry(name, term) for name, term in terms.items()},
    }
    with replace_file(path) as file:
        file.write((json.dumps(written, indent=2) + "\n").encode())
    return written


def _entry(name: str, term: MeasuredTerm) -> dict[str, Any]:
    source = f"measured: Flink {FLINK_VERSION} MiniCluster, median and quartiles of {term.runs} runs"
    numbers = {key: round(getattr(term, key), 4) for key in ("value", "low", "high")}
    return {**numbers, "unit": TERMS[name].unit, "about": TERMS[name].about, "source": source}
