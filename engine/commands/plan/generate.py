"""`penstock generate`: synthetic topologies."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from penstock.engine.commands.look.plan_to_draw import LINES, require_lines_to_draw
from penstock.engine.measure.generate.drawn_topologies import ENDINGS, workloads
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.output.write_lines import write_pieces, write_texts
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.require_target import require_target
from penstock.engine.store.write_topology_tables import write_topology_tables
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.draw_by_trace import TRACES
from penstock.plans.generate.fleet import Fleet, topology_lines
from penstock.plans.generate.layered import LEGEND, OTHERS, SHAPES, WORKLOADS, fleet_of_shape

_NAMES = ", ".join(shape.name for shape in SHAPES)
_WIDTHS = "; ".join(f"{shape.name}: {shape.width}" for shape in SHAPES if shape.width)
_SIZES = ", ".join(f"{shape.name} {shape.default_operators}" for shape in SHAPES)


def command(
    shape: Annotated[
        str | None,
        typer.Argument(
            metavar="[SHAPE|SPEC]",
            help=f"{_NAMES}; {WORKLOADS}: published benchmarks with costs; {', '.join(TRACES)}: jobs of "
            "the sizes and shapes of a published trace; or a spec file (.yaml).",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR|FILE",
            help="FILE.jsonl or FILE.jsonl.gz: topology lines. Else a directory of Delta tables "
            "(topologies, transformations).",
        ),
    ] = None,
    list_shapes: Annotated[
        bool,
        typer.Option(
            "--list", help="Show every shape with a picture, its parameters and a sentence; draw nothing."
        ),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="STORE|FILE|SUITE",
            help="In place of SHAPE: draw topologies after those of a plan store, a topology file, or a "
            "suite that comes with Penstock (captured, sql, workloads).",
        ),
    ] = None,
    topologies: Annotated[int, typer.Option("--topologies", "-n", help="How many topologies.")] = 1,
    operators: Annotated[
        int | None,
        typer.Option("--operators", help=f"Operators in one (random: on average); default: {_SIZES}."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same topologies.")] = 0,
    parallelism: Annotated[
        int | None,
        typer.Option(
            "--parallelism",
            help="Default: 4; random: each topology draws its own; as a trace: the most, default 64.",
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
            help="Of random: a few topologies in a hundred have what Flink refuses, for tests.",
        ),
    ] = False,
) -> None:
    """Make synthetic topologies, the same for the same seed on any machine.

    They are made in this process; if DIR is on another file system, by Spark's workers.
    """
    if list_shapes:
        list_what_is_drawn()
        return
    if out is None:
        raise ConfigurationError("--out: found none", "DIR or FILE.jsonl; --list shows what can be drawn")
    if like is not None:
        from penstock.engine.commands.plan.generate_by_spec import generate_like

        of_shapes = _given(operators, parallelism, share_of_uids, width, with_refusals)
        generate_like(like, out, topologies, seed, {f"SHAPE {shape}": shape is not None, **of_shapes})
        return
    if shape is not None and shape.endswith(ENDINGS):
        from penstock.engine.commands.plan.generate_by_spec import generate_by_spec

        generate_by_spec(
            shape, out, topologies, seed, _given(operators, parallelism, share_of_uids, width, with_refusals)
        )
        return
    if shape in TRACES:
        from penstock.engine.commands.plan.generate_by_spec import generate_by_trace

        of_shape = _given(operators, None, share_of_uids, width, with_refusals)
        generate_by_trace(shape, out, topologies, seed, parallelism, of_shape)
        return
    if shape is None:
        raise ConfigurationError("SHAPE: found none", f"a shape ({_NAMES}), {WORKLOADS}, or --like")
    if shape == WORKLOADS:
        of_shapes = {
            "--topologies": topologies != 1,
            "--operators": operators is not None,
            "--seed": seed != 0,
            "--share-of-uids": share_of_uids is not None,
            "--width": width is not None,
            "--with-refusals": with_refusals,
        }
        generate_workloads(out, parallelism, of_shapes)
        return
    fleet = fleet_of_shape(
        shape, topologies, operators, seed, parallelism, share_of_uids, width, with_refusals
    )
    if out.endswith(LINES):
        write_pieces(topology_lines(fleet), Path(out))
    elif is_local(out):
        _require_new(out)
        write_topology_tables(fleet, out)
    else:
        _write_on_spark(fleet, out)
    say_beside_output(f"{topologies} {shape} topolog{'y' if topologies == 1 else 'ies'} in {out}")


def _given(
    operators: int | None,
    parallelism: int | None,
    share_of_uids: float | None,
    width: int | None,
    with_refusals: bool,
) -> dict[str, bool]:
    """Options that only shapes have, and whether they were given."""
    return {
        "--operators": operators is not None,
        "--parallelism": parallelism is not None,
        "--share-of-uids": share_of_uids is not None,
        "--width": width is not None,
        "--with-refusals": with_refusals,
    }


def _require_new(directory: str) -> None:
    if os.path.lexists(local_folder(directory)):
        raise ConfigurationError(f"--out {directory}: is already there", "choose another, or remove it first")
    require_target(directory)


def _write_on_spark(fleet: Fleet, directory: str) -> None:
    from penstock.engine.spark.session import get_session
    from penstock.plans.generate.joins.generate_on_spark import generate_on_spark

    spark = get_session(app_name=f"penstock generate {fleet.shape}")
    for name, df in zip(("topologies", "transformations"), generate_on_spark(spark, fleet), strict=True):
        df.write.format("delta").mode("errorifexists").save(f"{directory.rstrip('/')}/{name}")


# `penstock generate workloads`: published benchmarks as topologies with costs.


def generate_workloads(out: str, parallelism: int | None, of_shapes: Mapping[str, bool]) -> None:
    """Write all workloads into FILE.jsonl or FILE.jsonl.gz, at that parallelism (None: 4).

    `of_shapes`: the options that only shapes have, and whether they were given. Raises ConfigurationError.
    """
    refused = [name for name, is_given in of_shapes.items() if is_given]
    if refused:
        raise ConfigurationError(
            f"{', '.join(refused)}: not for {WORKLOADS}, which are what they are", "allowed: --parallelism"
        )
    topologies = workloads(parallelism)
    require_lines_to_draw(out, WORKLOADS)
    write_texts(map(json.dumps, topologies), Path(out))
    say_beside_output(f"{len(topologies)} workloads in {out}")


# `penstock generate --list`: what can be drawn.


_WIDTH = 79


def list_what_is_drawn() -> None:
    """Print every shape with a picture, its parameters and a sentence, then what is no shape."""
    say(f"shapes ({LEGEND})")
    for shape in SHAPES:
        say()
        say(Styled(shape.name, "bold"))
        for line in shape.picture.strip("\n").splitlines():
            say(line)
        _say(shape.about)
        _say(f"defaults: operators {shape.default_operators:,}, {shape.defaults}")
        if shape.width:
            _say(f"width: {shape.width}")
    say()
    say("no shapes")
    for other in OTHERS:
        say()
        say(Styled(other.name, "bold"))
        _say(other.about)
        _say(f"takes: {other.parameters}")


def _say(text: str) -> None:
    for line in wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False):
        say(line)
