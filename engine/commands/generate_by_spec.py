"""`penstock generate SPEC.yaml`: a fleet drawn by a spec file."""

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.engine.commands.print_distances import print_distances
from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.generate.drawn_by_spec import fleet_spec, topologies_by_spec
from penstock.engine.output.progress import noted, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.by_spec.draw_by_spec import distances_of_draws, no_counts


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
    spec, counts = fleet_spec(path, topologies, seed), no_counts()
    drawn = topologies_by_spec(spec, topologies, seed, counts)
    with progress(1) as report:
        report("draw topologies")
        lines = (json.dumps(one, ensure_ascii=False) for one in noted(drawn, topologies, report))
        write_texts(lines, Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(f"{many} in {out}, drawn by {path}")
    if unused := spec.unused():
        say_beside_output(f"not used, since plans do not depend on it: {', '.join(unused)}")
    print_distances(distances_of_draws(spec, counts, seed))
