"""`penstock generate workloads`: published benchmarks as topologies with costs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.engine.bench.suites import WORKLOADS
from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.operator_rules import MAX_PARALLELISM

WORKLOADS_NAME = "workloads"
"""What `penstock generate` takes beside names of shapes."""


def generate_workloads(out: str, parallelism: int | None, of_shapes: Mapping[str, bool]) -> None:
    """Write all workloads into FILE.jsonl or FILE.jsonl.gz, at that parallelism (None: 4).

    `of_shapes`: the options that only shapes have, and whether they were given. Raises ConfigurationError.
    """
    given = [name for name, is_given in of_shapes.items() if is_given]
    if given:
        raise ConfigurationError(
            f"{', '.join(given)}: not for {WORKLOADS_NAME}, which are what they are", "allowed: --parallelism"
        )
    if parallelism is not None and not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigurationError(f"--parallelism: found {parallelism}, allowed 1 to {MAX_PARALLELISM}")
    require_lines_to_draw(out, WORKLOADS_NAME)
    topologies = [_at(json.loads(line), parallelism) for line in WORKLOADS.read_text().splitlines()]
    write_texts(map(json.dumps, topologies), Path(out))
    say_beside_output(f"{len(topologies)} workloads in {out}")


def _at(topology: dict[str, Any], parallelism: int | None) -> dict[str, Any]:
    """The topology at another parallelism; operators that set their own keep it."""
    return topology if parallelism is None else {**topology, "parallelism": parallelism}
