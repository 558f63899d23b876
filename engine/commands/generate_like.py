"""`penstock generate --like`: a fleet drawn after a given one, and how like it is."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.engine.commands.print_distances import print_distances
from penstock.engine.commands.require_lines_to_draw import require_lines_to_draw
from penstock.engine.generate.draw_after import Part, compare_with_model, draw_after, model_fleet
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.fleet import Spec
from penstock.plans.plan_json.columnar.to_topology_lines import to_topology_lines


def generate_like(like: str, out: str, topologies: int, seed: int, of_shapes: Mapping[str, bool]) -> None:
    """Write topologies drawn after those of a store or file into FILE.jsonl or FILE.jsonl.gz.

    Says how far their distributions are from the given ones. `of_shapes`: what only shapes take, and whether
    it was given. Raises ConfigurationError, InputError and StoreError.
    """
    taken = [name for name, is_given in of_shapes.items() if is_given]
    if taken:
        raise ConfigurationError(
            f"{', '.join(taken)}: not with --like, which draws all of it", "allowed: -n, --seed, --out"
        )
    require_lines_to_draw(out, "with --like")
    Spec(2, topologies, seed)  # refuses numbers that mean nothing
    with progress(4) as report:
        report("read topologies")
        model = model_fleet(like)
        report("draw topologies")
        written = _Written()
        parts = draw_after(model, topologies, seed)
        write_texts(_lines(parts, topologies, report, written), Path(out))
        report("plan drawn topologies")
        compared = compare_with_model(model, topologies, seed)
        report("compare")
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(
        f"{many} in {out}, drawn after {len(model.fleet.topologies):,} of {like}; "
        f"{written.varied:,} are varied"
    )
    if compared.refused:
        say_beside_output(
            f"{compared.refused:,} of {compared.planned:,} that were planned to compare them are refused"
        )
    print_distances(compared.distances)


class _Written:
    """What is known once all lines are written."""

    varied = 0


def _lines(parts: Iterator[Part], topologies: int, report: Report, written: _Written) -> Iterator[str]:
    for part in parts:
        report.note(f"{part.start:,} of {topologies:,}")
        written.varied += part.varied
        yield from to_topology_lines(part.tables)["line"]
