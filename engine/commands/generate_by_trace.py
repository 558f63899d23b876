"""`penstock generate alibaba-2018`: a fleet with the sizes and shapes of a published trace."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.draw_by_trace import DEFAULT_MOST_PARALLELISM, draw_by_trace
from penstock.plans.generate.fleet import Spec

_NOTED = 1_000


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
    most = DEFAULT_MOST_PARALLELISM if parallelism is None else parallelism
    Spec(2, topologies, seed, parallelism=most)  # refuses numbers that mean nothing
    with progress(1) as report:
        report("draw topologies")
        write_texts(_lines(trace, seed, topologies, most, report), Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(f"{many} in {out}, drawn after {trace}")


def _lines(trace: str, seed: int, topologies: int, most: int, report: Report) -> Iterator[str]:
    for number in range(topologies):
        if number % _NOTED == 0:
            report.note(f"{number:,} of {topologies:,}")
        yield json.dumps(draw_by_trace(trace, seed, number, most))
