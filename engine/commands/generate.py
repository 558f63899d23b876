"""The command `penstock generate`, which makes synthetic topologies."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import pyarrow as pa
import typer
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction
from rich.table import Column

from penstock.engine.commands.draw import LINES, require_lines_to_draw
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.open_source import open_source
from penstock.engine.machine.replace_file import sync_folder
from penstock.engine.measure.draw_after import (
    ENDINGS,
    FleetPart,
    compare_with_model,
    draw_after,
    fleet_spec,
    model_fleet,
    source_of_fleet,
    topologies_by_spec,
    topologies_by_trace,
    workloads,
)
from penstock.engine.output.people import print_table_beside_output
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import Report, noted, progress
from penstock.engine.output.write_lines import write_pieces, write_texts
from penstock.engine.store.data_files import add_action, make_log_durable, write_file
from penstock.engine.store.store_location import is_local, locate, store_errors
from penstock.engine.store.store_tables import delta_schema
from penstock.engine.store.write_plan import require_target
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.draw_by_trace import TRACES
from penstock.plans.generate.fidelity import CLOSE, Distance
from penstock.plans.generate.fleet import (
    ROWS_OF_A_PART,
    Fleet,
    Spec,
    topologies_table,
    topology_lines,
    transformations_table,
)
from penstock.plans.generate.layered import LEGEND, OTHERS, SHAPES, WORKLOADS, fleet_of_shape
from penstock.plans.plan_json.to_topology_lines import to_topology_lines
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import Layer

# `penstock generate SPEC.yaml`: draw a fleet by a spec file.


def _generate_by_spec(
    path: str, out: str, topologies: int, seed: int, for_shapes: Mapping[str, bool]
) -> None:
    """Write topologies drawn by a spec file into FILE.jsonl or FILE.jsonl.gz, and print how close they are.

    `for_shapes` maps options for shapes to whether they were given. Raises ConfigurationError and InputError.
    """
    from penstock.plans.generate.draw_by_spec import distances_of_draws, no_counts

    refused = [name for name, is_given in for_shapes.items() if is_given]
    if refused:
        raise ConfigurationError(
            f"{', '.join(refused)}: not with a spec file, which sets it", "allowed: -n, --seed, --out"
        )
    require_lines_to_draw(out, "by a spec file")
    spec, counts = fleet_spec(path, topologies, seed), no_counts()
    drawn = topologies_by_spec(spec, topologies, seed, counts)
    with progress(1) as report:
        report("draw topologies")
        lines = (json.dumps(topology, ensure_ascii=False) for topology in noted(drawn, topologies, report))
        write_texts(lines, Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    print_beside_output(f"{many} in {out}, drawn by {path}")
    if unused := spec.unused():
        print_beside_output(f"unused, because plans do not depend on it: {', '.join(unused)}")
    print_distances(distances_of_draws(spec, counts, seed))


# `penstock generate alibaba-2018`: draw a fleet with the sizes and shapes of a published trace.


def _generate_by_trace(
    trace: str, out: str, topologies: int, seed: int, parallelism: int | None, for_shapes: Mapping[str, bool]
) -> None:
    """Write topologies drawn after a trace into FILE.jsonl or FILE.jsonl.gz.

    `parallelism` is the maximum of an operator (None: DEFAULT_MOST_PARALLELISM). `for_shapes` maps options
    for shapes to whether they were given. Raises ConfigurationError.
    """
    refused = [name for name, is_given in for_shapes.items() if is_given]
    if refused:
        raise ConfigurationError(
            f"{', '.join(refused)}: not with {trace}, whose sizes are drawn",
            "allowed: -n, --seed, --parallelism (the maximum), --out",
        )
    require_lines_to_draw(out, trace)
    drawn = topologies_by_trace(trace, topologies, seed, parallelism)
    with progress(1) as report:
        report("draw topologies")
        write_texts(map(json.dumps, noted(drawn, topologies, report)), Path(out))
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    print_beside_output(f"{many} in {out}, drawn after {trace}")


# `penstock generate --like`: draw a fleet after a given one, and measure its similarity.


def _generate_like(like: str, out: str, topologies: int, seed: int, for_shapes: Mapping[str, bool]) -> None:
    """Write topologies drawn after a store or file into FILE.jsonl or FILE.jsonl.gz.

    Prints how far their distributions are from the given ones. `for_shapes` maps options for shapes to
    whether they were given. Raises ConfigurationError, InputError and StoreError.
    """
    taken = [name for name, is_given in for_shapes.items() if is_given]
    if taken:
        raise ConfigurationError(
            f"{', '.join(taken)}: not with --like, which draws everything", "allowed: -n, --seed, --out"
        )
    require_lines_to_draw(out, "with --like")
    Spec(2, topologies, seed)  # refuses impossible numbers
    with progress(4) as report:
        report("read topologies")
        with open_source(source_of_fleet(like), EffectiveConfiguration, until=Layer.JOB_GRAPH) as plan:
            model = model_fleet(plan, like)
        report("draw topologies")
        written = _WrittenFigures()
        parts = draw_after(model, topologies, seed)
        write_texts(_lines(parts, topologies, report, written), Path(out))
        report("plan drawn topologies")
        compared = compare_with_model(model, topologies, seed)
        report("compare")
    many = f"{topologies:,} topolog{'y' if topologies == 1 else 'ies'}"
    print_beside_output(
        f"{many} in {out}, drawn after {len(model.fleet.topologies):,} of {like}; {written.varied:,} varied"
    )
    if compared.refused:
        print_beside_output(
            f"{compared.refused:,} of {compared.planned:,} that were planned for comparison are refused"
        )
    print_distances(compared.distances)


class _WrittenFigures:
    """Figures that are known once all lines are written."""

    varied = 0


def _lines(
    parts: Iterator[FleetPart], topologies: int, report: Report, written: _WrittenFigures
) -> Iterator[str]:
    for part in parts:
        report.note(f"{part.start:,} of {topologies:,}")
        written.varied += part.varied
        yield from to_topology_lines(part.tables)["line"]


# The distance of a drawn fleet from its model, as a table on standard error.


def print_distances(distances: Sequence[Distance]) -> None:
    """Print a row for each distribution, and how many are close; nothing if nothing is compared."""
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
    print_beside_output(
        f"{close} of {len(distances)} are close: at most {CLOSE}, or within chance in 19 of 20 fleets"
    )


# Generated topologies as Delta tables in a local folder, which appears atomically.


_PARTS_OF_A_FILE = 16


@without_pandas()
def _write_topology_tables(fleet: Fleet, directory: str) -> None:
    """Write the tables `topologies` and `transformations` of a fleet into a new folder.

    They are written beside it, synced and renamed. Raises MachineError and StoreError.
    """
    target = locate(directory).join()
    parent = os.path.dirname(target)
    with store_errors(directory, "writing"):
        os.makedirs(parent, exist_ok=True)
        unfinished = tempfile.mkdtemp(dir=parent, prefix=f".{os.path.basename(target)}.")
        try:
            os.chmod(unfinished, 0o777 & ~_umask())
            for table in ("topologies", "transformations"):
                _write_table(fleet, os.path.join(unfinished, table), table)
            os.rename(unfinished, target)
            sync_folder(parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


def _write_table(fleet: Fleet, folder: str, table: str) -> None:
    schema = TABLES[table]
    delta_table = DeltaTable.create(folder, Schema.from_json(json.dumps(delta_schema(schema))), mode="error")
    plain = pa.schema([field.remove_metadata() for field in schema])
    actions: list[AddAction | RemoveAction] = []
    units, step = _parts(fleet, table)
    for start in range(0, units, step * _PARTS_OF_A_FILE):
        rows = 0

        def parts(start: int = start) -> Iterator[pa.Table]:
            nonlocal rows
            for first in range(start, min(start + step * _PARTS_OF_A_FILE, units), step):
                part = _part(fleet, table, first, min(first + step, units))
                rows += len(part)
                yield part.cast(plain)

        file = write_file(folder, "", parts(), plain)
        actions.append(add_action(folder, file, rows, {}))
    delta_table.create_write_transaction(actions, "append", delta_table.schema())
    make_log_durable(folder, since=0)


def _parts(fleet: Fleet, table: str) -> tuple[int, int]:
    """Return the number of units of a table, and how many of them are made at a time."""
    if table == "topologies":
        return fleet.spec.topologies, ROWS_OF_A_PART
    return fleet.units, fleet.units_of_a_part


def _part(fleet: Fleet, table: str, start: int, stop: int) -> pa.Table:
    return (topologies_table if table == "topologies" else transformations_table)(fleet, start, stop)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_NAMES = ", ".join(shape.name for shape in SHAPES)
_WIDTHS = "; ".join(f"{shape.name}: {shape.width}" for shape in SHAPES if shape.width)
_SIZES = ", ".join(f"{shape.name} {shape.default_operators}" for shape in SHAPES)


def generate_command(
    shape: Annotated[
        str | None,
        typer.Argument(
            metavar="[SHAPE|SPEC]",
            help=f"{_NAMES}; {WORKLOADS}: published benchmarks with costs; {', '.join(TRACES)}: jobs with "
            "the sizes and shapes of a published trace; or a spec file (.yaml).",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR|FILE",
            help="FILE.jsonl or FILE.jsonl.gz: topology lines. Otherwise a directory of Delta tables "
            "(topologies, transformations).",
        ),
    ] = None,
    list_shapes: Annotated[
        bool,
        typer.Option(
            "--list", help="Print every shape with a picture, its parameters and a sentence; draw nothing."
        ),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="STORE|FILE|SUITE",
            help="In place of SHAPE: draw topologies after a plan store, a topology file, or a "
            "suite bundled with Penstock (captured, sql, workloads).",
        ),
    ] = None,
    topologies: Annotated[int, typer.Option("--topologies", "-n", help="Number of topologies.")] = 1,
    operators: Annotated[
        int | None,
        typer.Option("--operators", help=f"Operators per topology (random: on average); default: {_SIZES}."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same topologies.")] = 0,
    parallelism: Annotated[
        int | None,
        typer.Option(
            "--parallelism",
            help="Default: 4; random: drawn per topology; for a trace: the maximum, default 64.",
        ),
    ] = None,
    share_of_uids: Annotated[
        float | None,
        typer.Option("--share-of-uids", help="Share of operators with a uid; default: 0, random 0.165."),
    ] = None,
    width: Annotated[int | None, typer.Option("--width", help=_WIDTHS)] = None,
    with_refusals: Annotated[
        bool,
        typer.Option(
            "--with-refusals",
            help="For random: a few topologies in a hundred are ones that Flink refuses, for tests.",
        ),
    ] = False,
) -> None:
    """Make synthetic topologies, the same for the same seed on any machine.

    They are made in this process; if DIR is on another file system, by Spark's workers.

    Examples:
        penstock generate --list
        penstock generate random --topologies 1000 --out random.jsonl
        penstock generate --like captured --topologies 100 --out like.jsonl

    Exit codes:
        3: A spec or file cannot be read.
    """
    if list_shapes:
        list_what_is_drawn()
        return
    if out is None:
        raise ConfigurationError("--out is required", "give DIR or FILE.jsonl; --list lists all shapes")
    if like is not None:
        for_shapes = _given(operators, parallelism, share_of_uids, width, with_refusals)
        _generate_like(like, out, topologies, seed, {f"SHAPE {shape}": shape is not None, **for_shapes})
        return
    if shape is not None and shape.endswith(ENDINGS):
        _generate_by_spec(
            shape, out, topologies, seed, _given(operators, parallelism, share_of_uids, width, with_refusals)
        )
        return
    if shape in TRACES:
        for_shapes = _given(operators, None, share_of_uids, width, with_refusals)
        _generate_by_trace(shape, out, topologies, seed, parallelism, for_shapes)
        return
    if shape is None:
        raise ConfigurationError("SHAPE is required", f"give a shape ({_NAMES}), {WORKLOADS}, or --like")
    if shape == WORKLOADS:
        for_shapes = {
            "--topologies": topologies != 1,
            "--operators": operators is not None,
            "--seed": seed != 0,
            "--share-of-uids": share_of_uids is not None,
            "--width": width is not None,
            "--with-refusals": with_refusals,
        }
        generate_workloads(out, parallelism, for_shapes)
        return
    fleet = fleet_of_shape(
        shape, topologies, operators, seed, parallelism, share_of_uids, width, with_refusals
    )
    if out.endswith(LINES):
        write_pieces(topology_lines(fleet), Path(out))
    elif is_local(out):
        _require_new(out)
        _write_topology_tables(fleet, out)
    else:
        _write_on_spark(fleet, out)
    print_beside_output(f"{topologies} {shape} topolog{'y' if topologies == 1 else 'ies'} in {out}")


def _given(
    operators: int | None,
    parallelism: int | None,
    share_of_uids: float | None,
    width: int | None,
    with_refusals: bool,
) -> dict[str, bool]:
    """Return the options for shapes, and whether they were given."""
    return {
        "--operators": operators is not None,
        "--parallelism": parallelism is not None,
        "--share-of-uids": share_of_uids is not None,
        "--width": width is not None,
        "--with-refusals": with_refusals,
    }


def _require_new(directory: str) -> None:
    if os.path.lexists(locate(directory).join()):
        raise ConfigurationError(f"--out {directory} exists already", "choose another, or remove it first")
    require_target(directory)


def _write_on_spark(fleet: Fleet, directory: str) -> None:
    from penstock.engine.spark.session import get_session
    from penstock.plans.generate.generate_on_spark import generate_on_spark

    spark = get_session(app_name=f"penstock generate {fleet.shape}")
    for name, df in zip(("topologies", "transformations"), generate_on_spark(spark, fleet), strict=True):
        df.write.format("delta").mode("errorifexists").save(f"{directory.rstrip('/')}/{name}")


# `penstock generate workloads`: write published benchmarks as topologies with costs.


def generate_workloads(out: str, parallelism: int | None, for_shapes: Mapping[str, bool]) -> None:
    """Write all workloads into FILE.jsonl or FILE.jsonl.gz, at that parallelism (None: 4).

    `for_shapes` maps options for shapes to whether they were given. Raises ConfigurationError.
    """
    refused = [name for name, is_given in for_shapes.items() if is_given]
    if refused:
        raise ConfigurationError(
            f"{', '.join(refused)}: not for {WORKLOADS}, which are fixed", "allowed: --parallelism"
        )
    topologies = workloads(parallelism)
    require_lines_to_draw(out, WORKLOADS)
    write_texts(map(json.dumps, topologies), Path(out))
    print_beside_output(f"{len(topologies)} workloads in {out}")


# `penstock generate --list`: print all shapes.


_WIDTH = 79


def list_what_is_drawn() -> None:
    """Print every shape with a picture, its parameters and a sentence, then the other sources."""
    print_line(f"shapes ({LEGEND})")
    for shape in SHAPES:
        print_line()
        print_line(StyledText(shape.name, "bold"))
        for line in shape.picture.strip("\n").splitlines():
            print_line(line)
        _print(shape.about)
        _print(f"defaults: operators {shape.default_operators:,}, {shape.defaults}")
        if shape.width:
            _print(f"width: {shape.width}")
    print_line()
    print_line("no shapes")
    for other in OTHERS:
        print_line()
        print_line(StyledText(other.name, "bold"))
        _print(other.about)
        _print(f"takes: {other.parameters}")


def _print(text: str) -> None:
    for line in wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False):
        print_line(line)
