"""`penstock generate SPEC.yaml`: a fleet drawn by a spec file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.engine.commands.print_distances import print_distances
from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.generate.by_spec.draw_by_spec import Counts, distances_of_draws, draw_by_spec, no_counts
from penstock.plans.generate.by_spec.fleet_spec import FleetSpec, read_fleet_spec
from penstock.plans.generate.fleet import Spec

_NOTED = 1_000


def generate_by_spec(path: str, out: str, topologies: int, seed: int, of_shapes: Mapping[str, bool]) -> None:
    """Write topologies drawn by a spec file into FILE.jsonl or FILE.jsonl.gz, and say how close they are.

    `of_shapes`: the options that only shapes have, and whether they were given. Raises ConfigurationError
    and InputError.
    """
    given = [name for name, is_given in of_shapes.items() if is_given]
    if given:
        raise ConfigurationError(
            f"{', '.join(given)}: not with a spec file, which says it", "allowed: -n, --seed, --out"
        )
    require_lines_to_draw(out, "by a spec file")
    Spec(2, topologies, seed)  # refuses numbers that mean nothing
    try:
        spec = read_fleet_spec(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such spec file") from error
    counts = no_counts()
    with progress(1) as report:
        report("draw topologies")
        write_texts(_lines(spec, seed, topologies, counts, report), Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(f"{many} in {out}, drawn by {path}")
    if unused := spec.unused():
        say_beside_output(f"not used, since plans do not depend on it: {', '.join(unused)}")
    print_distances(distances_of_draws(spec, counts, seed))


def _lines(spec: FleetSpec, seed: int, topologies: int, counts: Counts, report: Report) -> Iterator[str]:
    for number in range(topologies):
        if number % _NOTED == 0:
            report.note(f"{number:,} of {topologies:,}")
        yield json.dumps(draw_by_spec(spec, seed, number, counts), ensure_ascii=False)
