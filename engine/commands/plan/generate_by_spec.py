"""`penstock generate SPEC.yaml`: a fleet drawn by a spec file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Column

from penstock.engine.commands.look.plan_to_draw import require_lines_to_draw
from penstock.engine.measure.generate.draw_after import FleetPart, compare_with_model, draw_after, model_fleet
from penstock.engine.measure.generate.drawn_by_spec import fleet_spec, topologies_by_spec
from penstock.engine.measure.generate.drawn_topologies import topologies_by_trace
from penstock.engine.output.people import print_table_beside_output
from penstock.engine.output.progress import Report, noted, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.by_spec.draw_by_spec import distances_of_draws, no_counts
from penstock.plans.generate.fleet import Spec
from penstock.plans.generate.like.fidelity import CLOSE, Distance
from penstock.plans.plan_json.columnar.to_topology_lines import to_topology_lines


def generate_by_spec(path: str, out: str, topologies: int, seed: int, of_shapes: Mapping[str, bool]) -> None:
    """Write topologies drawn by a spec file into FILE.jsonl or FILE.jsonl.gz, and say how close they are.

    `of_shapes`: the options that only shapes have, and whether they were given. Raises ConfigurationError
    and InputError.
    """
    refused = [name for name, is_given in of_shapes.items() if is_given]
    if refused:
        raise ConfigurationError(
            f"{', '.join(refused)}: not with a spec file, which says it", "allowed: -n, --seed, --out"
        )
    require_lines_to_draw(out, "by a spec file")
    spec, counts = fleet_spec(path, topologies, seed), no_counts()
    drawn = topologies_by_spec(spec, topologies, seed, counts)
    with progress(1) as report:
        report("draw topologies")
        lines = (json.dumps(topology, ensure_ascii=False) for topology in noted(drawn, topologies, report))
        write_texts(lines, Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(f"{many} in {out}, drawn by {path}")
    if unused := spec.unused():
        say_beside_output(f"not used, since plans do not depend on it: {', '.join(unused)}")
    print_distances(distances_of_draws(spec, counts, seed))


# `penstock generate alibaba-2018`: a fleet with the sizes and shapes of a published trace.


def generate_by_trace(
    trace: str, out: str, topologies: int, seed: int, parallelism: int | None, of_shapes: Mapping[str, bool]
) -> None:
    """Write topologies drawn after a trace into FILE.jsonl or FILE.jsonl.gz.

    `parallelism`: the most that an operator has (None: DEFAULT_MOST_PARALLELISM). `of_shapes`: the options
    that only shapes have, and whether they were given. Raises ConfigurationError.
    """
    refused = [name for name, is_given in of_shapes.items() if is_given]
    if refused:
        raise ConfigurationError(
            f"{', '.join(refused)}: not with {trace}, whose sizes are drawn",
            "allowed: -n, --seed, --parallelism (the most), --out",
        )
    require_lines_to_draw(out, trace)
    drawn = topologies_by_trace(trace, topologies, seed, parallelism)
    with progress(1) as report:
        report("draw topologies")
        write_texts(map(json.dumps, noted(drawn, topologies, report)), Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    say_beside_output(f"{many} in {out}, drawn after {trace}")


# `penstock generate --like`: a fleet drawn after a given one, and how like it is.


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
    """The figures that are known once all lines are written."""

    varied = 0


def _lines(parts: Iterator[FleetPart], topologies: int, report: Report, written: _Written) -> Iterator[str]:
    for part in parts:
        report.note(f"{part.start:,} of {topologies:,}")
        written.varied += part.varied
        yield from to_topology_lines(part.tables)["line"]


# How close a drawn fleet is to what it was drawn by, as a table beside the output.


def print_distances(distances: Sequence[Distance]) -> None:
    """A row for each distribution, and how many are close; nothing where nothing is compared."""
    if not distances:
        return
    columns = [
        Column("distribution"),
        Column("measure"),
        Column("distance", justify="right"),
        Column("by chance", justify="right"),
        Column(""),
    ]
    rows = [
        (
            distance.distribution,
            distance.measure,
            f"{distance.distance:.3f}",
            f"{distance.by_chance:.3f}",
            "close" if distance.is_close else "far",
        )
        for distance in distances
    ]
    print_table_beside_output(columns, rows)
    close = sum(distance.is_close for distance in distances)
    say_beside_output(
        f"{close} of {len(distances)} are close: at most {CLOSE}, or what chance explains in 19 of 20 fleets"
    )
