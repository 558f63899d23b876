"""`penstock generate alibaba-2018`: a fleet with the sizes and shapes of a published trace."""

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.generate.drawn_topologies import topologies_by_trace
from penstock.engine.output.progress import noted, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError


def generate_by_trace(
    trace: str, out: str, topologies: int, seed: int, parallelism: int | None, of_shapes: Mapping[str, bool]
) -> None:
    """Write topologies drawn after a trace into FILE.jsonl or FILE.jsonl.gz.

    `parallelism`: the most that an operator has (None: DEFAULT_MOST_PARALLELISM). `of_shapes`: the options
    that only shapes have, and whether they were given. Raises ConfigurationError.
    """
    given = [name for name, is_given in of_shapes.items() if is_given]
    if given:
        raise ConfigurationError(
            f"{', '.join(given)}: not with {trace}, whose sizes are drawn",
            "allowed: -n, --seed, --parallelism (the most), --out",
        )
    require_lines_to_draw(out, trace)
    drawn = topologies_by_trace(trace, topologies, seed, parallelism)
    with progress(1) as report:
        report("draw topologies")
        write_texts(map(json.dumps, noted(drawn, topologies, report)), Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(f"{many} in {out}, drawn after {trace}")
