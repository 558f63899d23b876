"""`penstock generate workloads`: published benchmarks as topologies with costs."""

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.generate.drawn_topologies import workloads
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.shapes import WORKLOADS


def generate_workloads(out: str, parallelism: int | None, of_shapes: Mapping[str, bool]) -> None:
    """Write all workloads into FILE.jsonl or FILE.jsonl.gz, at that parallelism (None: 4).

    `of_shapes`: the options that only shapes have, and whether they were given. Raises ConfigurationError.
    """
    given = [name for name, is_given in of_shapes.items() if is_given]
    if given:
        raise ConfigurationError(
            f"{', '.join(given)}: not for {WORKLOADS}, which are what they are", "allowed: --parallelism"
        )
    topologies = workloads(parallelism)
    require_lines_to_draw(out, WORKLOADS)
    write_texts(map(json.dumps, topologies), Path(out))
    say_beside_output(f"{len(topologies)} workloads in {out}")
