"""The command `penstock explain`, which explains a plan and the effect of changes."""

from collections.abc import Callable, Iterator
from typing import Annotated, NamedTuple

import orjson
import polars as pl
import typer
from rich.table import Column

from penstock.engine.commands.draw import plan_of_source
from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.commands.reads_plan import JobOption, opened_plan
from penstock.engine.commands.size import buffers_of_vertices
from penstock.engine.configuration.cluster_options import recorded_cluster
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.output.progress import progress
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.memory_estimate import require_memory_to_plan_again
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.plan_tables import PlanTables, plan_in_memory
from penstock.engine.views.explain_plan import ExplainedPlan, explain_plan, print_explanation
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.job_graph.choose_result_partition_types import IS_CHAINED
from penstock.plans.layers import PlanOptions
from penstock.plans.stream_graph.expand_sinks import expand_transformations
from penstock.plans.stream_graph.not_chainable_reasons import (
    ChainAlways,
    FollowProducer,
    NotChainableReason,
    SwitchOn,
)
from penstock.plans.stream_graph.resolve_virtual_nodes import resolve_virtual_nodes
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import ChainingStrategy, Layer, SlotSharingStrategy, TopologyForm

# `penstock explain SCRIPT.py --what-if CHANGE`: the effect of a change on the script's job.


def _explain_what_if_of_script(
    *,
    script: str,
    arguments: list[str],
    change: str,
    job: str | None,
    configuration: EffectiveConfiguration,
    json: bool,
) -> None:
    """Print a job's figures before and after a change. Raises ConfigurationError for an unknown change."""
    from penstock.engine.library.run_script import parse_change, what_if_of_script
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.run.runtime.run_context import EnvironmentSettings

    changes = parse_change(change)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    settings = EnvironmentSettings(config=configuration.scripts, plan_options=options)
    answer = what_if_of_script(script, arguments, settings, job, changes)
    if json:
        import orjson

        result = {"change": change, **answer._asdict()}
        for when in ("now", "then"):
            result[when] = {name.replace(" ", "_"): value for name, value in result[when].items()}
        write_texts([orjson.dumps(result).decode()], None)
        return
    print_line(f"job {answer.job!r} with {change}")
    for name in answer.operators_then:
        if name not in answer.operators_now:
            print_line(f"  new operator: {name}")
    for name in answer.operators_now:
        if name not in answer.operators_then:
            print_line(f"  removed operator: {name}")
    print_line()
    rows = [
        (name, f"{now:,}", f"{answer.then[name]:,}", f"{answer.then[name] - now:+,}")
        for name, now in answer.now.items()
    ]
    print_table([Column(""), *(Column(name, justify="right") for name in ("now", "then", "change"))], rows)


# `penstock explain STORE --what-if REASON`: the savings of a fleet without one reason against chaining, found
# by planning the topologies again, not estimated.


CHANGES = {reason: change for reason in NotChainableReason if (change := reason.record.what_if) is not None}
"""Reasons that settings cause, and the change that removes each; others follow from the job's logic."""

FIGURES = ("job vertices", "tasks", "slots", "network buffers", "chained edges")

_ROWS_PER_PART = 100_000
_PLANNED = ("topologies", "transformations", "job_settings", "stream_nodes", "stream_edges", "rejected")
_READ = ("stream_edges", "job_vertices", "execution_job_vertices", "required_slots", "network_buffers")
NEEDED = (*_PLANNED, *_READ)


class WhatIf(NamedTuple):
    """Figures of the changed topologies before and after the change."""

    edges: int  #: edges that have the reason, in all topologies
    alone: int  #: of these, changed edges: the reason is their only one
    topologies: int  #: topologies planned again
    refused: int  #: of these, topologies that Flink would refuse after the change; not in the figures
    now: dict[str, int]
    then: dict[str, int]


def what_if(plan: PlanTables, reason: NotChainableReason, report: Callable[[int, int], None]) -> WhatIf:
    """Remove the cause of `reason` from edges that only it keeps from being chained, and plan again.

    `plan` needs the tables NEEDED. Topologies that came as StreamGraphs are left alone. The others are
    planned in parts; `report` is called with the number of each part, from 1, and the number of parts. Raises
    NotEnoughMemoryError if one topology is too large to be planned again in this process.
    """
    having = plan.table("stream_edges").filter(pl.col("not_chainable_reasons").list.contains(reason.value))
    edges = having.select(pl.len()).collect(engine="streaming").item()
    topologies = plan.table("topologies").filter(pl.col("form") == TopologyForm.TRANSFORMATIONS)
    sizes = (
        plan.table("stream_nodes")
        .join(having.filter(_alone(reason)), on=TOPOLOGY, how="semi")
        .join(topologies, on=TOPOLOGY, how="semi")
        .group_by(TOPOLOGY)
        .len("nodes")
        .sort(TOPOLOGY)
        .collect(engine="streaming")
    )
    nodes = sizes["nodes"].to_list()
    require_memory_to_plan_again(max([min(sum(nodes), _ROWS_PER_PART), *nodes]))
    parts = list(_parts(sizes))
    changed = planned_again = refused = 0
    now, then = dict.fromkeys(FIGURES, 0), dict.fromkeys(FIGURES, 0)
    for place, part in enumerate(parts, 1):
        report(place, len(parts))
        before = plan.only(part)
        frames = {table: before.table(table).collect() for table in _PLANNED}
        chosen = _chosen(frames, reason)
        if chosen.is_empty():
            continue
        changed += len(chosen)
        chosen_topologies = chosen.select(TOPOLOGY).unique()
        planned_again += len(chosen_topologies)
        after = _planned(
            plan, {name: _semi(frame, chosen_topologies) for name, frame in frames.items()}, chosen, reason
        )
        planned = after.table("topologies").select(TOPOLOGY).collect()
        refused += len(chosen_topologies) - len(planned)
        for sums, tables in ((now, plan.only(planned)), (then, after)):
            for figure, value in _figures(tables).items():
                sums[figure] += value
    return WhatIf(edges, changed, planned_again, refused, now, then)


def _alone(reason: NotChainableReason) -> pl.Expr:
    """Select edges kept apart only by `reason` and the reasons that follow from it."""
    change = CHANGES[reason]
    implied = change.implies if isinstance(change, FollowProducer) else ()
    return pl.col("not_chainable_reasons").list.set_difference([reason.value, *implied]).list.len() == 0


def _parts(sizes: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield topologies in parts of about _ROWS_PER_PART nodes."""
    numbers = (sizes["nodes"].cum_sum() - sizes["nodes"]) // _ROWS_PER_PART
    for part in sizes.select(TOPOLOGY, part=numbers).partition_by("part", maintain_order=True):
        yield part.select(TOPOLOGY)


def _semi(frame: pl.DataFrame, topologies: pl.DataFrame) -> pl.DataFrame:
    return frame.join(topologies, on=TOPOLOGY, how="semi", maintain_order="left")


def _chosen(frames: dict[str, pl.DataFrame], reason: NotChainableReason) -> pl.DataFrame:
    """Return topology, source and target of the edges to change."""
    has = pl.col("not_chainable_reasons").list.contains(reason.value)
    edges = frames["stream_edges"].filter(has & _alone(reason))
    if isinstance(change := CHANGES[reason], FollowProducer) and change.implies:
        # A partitioner that this reason implies goes too; a partition transformation's stays.
        ordered = frames["transformations"].sort(TOPOLOGY, "id")
        implied = resolve_virtual_nodes(expand_transformations(ordered, frames["job_settings"])).filter(
            pl.col("partitioner").is_null()
        )
        edges = edges.join(
            implied.select(TOPOLOGY, "target", "in_index"), on=[TOPOLOGY, "target", "in_index"]
        )
    return edges.select(TOPOLOGY, "source", "target")


def _planned(
    plan: PlanTables, frames: dict[str, pl.DataFrame], chosen: pl.DataFrame, reason: NotChainableReason
) -> PlanTables:
    """Plan these topologies with the edges `chosen` changed."""
    edges, nodes = frames["stream_edges"], frames["stream_nodes"]
    match CHANGES[reason]:
        case SwitchOn(setting):
            frames["job_settings"] = frames["job_settings"].with_columns(pl.lit(True).alias(setting))
        case FollowProducer(attribute):
            values = _followed(nodes.select(TOPOLOGY, "id", value=attribute), edges, chosen)
            frames["transformations"] = _with(frames["transformations"], _given(values, nodes), attribute)
        case ChainAlways(end):
            always = chosen.select(TOPOLOGY, id=end, value=pl.lit(ChainingStrategy.ALWAYS.value)).unique()
            frames["transformations"] = _with(frames["transformations"], _given(always, nodes), "chaining")
    frames["stream_nodes"], frames["stream_edges"] = nodes.clear(), edges.clear()
    frames["rejected"] = frames["rejected"].clear()
    options = plan.options
    task_manager, network = recorded_cluster(options)
    sharing = SlotSharingStrategy(options["slot_sharing"])
    planned = plan_in_process(
        TopologyTables.of(frames), PlanOptions(Layer.SLOTS, sharing, network, task_manager)
    )
    return plan_in_memory(plan.label, planned.tables, options, plan.planner_version)


def _given(values: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Move `values` of nodes to their transformations; the first node of each transformation wins."""
    transformations = nodes.select(TOPOLOGY, "id", "transformation")
    values_of_transformations = values.join(transformations, on=[TOPOLOGY, "id"]).select(
        TOPOLOGY, "value", id="transformation"
    )
    return values_of_transformations.unique([TOPOLOGY, "id"], keep="first", maintain_order=True)


def _with(transformations: pl.DataFrame, values: pl.DataFrame, column: str) -> pl.DataFrame:
    """Replace a column of `transformations` where `values` has a value."""
    joined = transformations.join(values, on=[TOPOLOGY, "id"], how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("value", column).alias(column)).drop("value")


def _followed(values: pl.DataFrame, edges: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the nodes whose value changes along chosen edges, with the new value from the source.

    Along chained edges the target follows too, so they stay chained. A node comes after its inputs, because
    its number is greater.
    """
    also = edges.filter("chainable").select(TOPOLOGY, "source", "target")
    along = pl.concat([chosen, also]).sort(TOPOLOGY, "target")
    known = {(topology, node): value for topology, node, value in values.iter_rows()}
    new = dict(known)
    for topology, source, target in along.iter_rows():
        new[topology, target] = new[topology, source]
    changed = [(*key, value) for key, value in new.items() if value != known[key]]
    return pl.DataFrame(changed, {name: values.schema[name] for name in values.columns}, orient="row")


def _figures(plan: PlanTables) -> dict[str, int]:
    edges = plan.table("stream_edges").select(IS_CHAINED.sum())
    slots = plan.table("required_slots").select(pl.col("slots").cast(pl.Int64).sum())
    vertices = buffers_of_vertices(plan)
    tasks, buffers = vertices.select(pl.col("parallelism", "buffers").sum()).row(0)
    counted = (len(vertices), tasks, slots.collect().item(), buffers, edges.collect().item())
    return dict(zip(FIGURES, map(int, counted), strict=True))


# The commands' entry points.


def explain_what_if(*, store: str, named: str, version: int | None, json: bool) -> None:
    """Print the savings of a version's topologies without the reason `named`.

    Raises ConfigurationError for an unknown reason, or a reason that no setting causes; StoreError.
    """
    reason = next((reason for reason in CHANGES if reason == named.upper()), None)
    if reason is None:
        known = named.upper() in list(NotChainableReason)
        reason_against = "no setting causes it" if known else "unknown reason"
        raise ConfigurationError(
            f"--what-if {named}: {reason_against}", f"choose one of {', '.join(CHANGES)}"
        )
    with opened_plan(store, version) as plan:
        if not plan.has(*NEEDED):
            raise StoreError(f"{plan.title} has no slots", "plan it again with --until slots")
        with progress(1) as shown:

            def report(part: int, parts: int) -> None:
                shown.note(f"plan part {part:,} of {parts:,}")

            shown("find edges")
            answer = what_if(plan, reason, report)
    if json:
        result = {"reason": reason.value, "change": CHANGES[reason].meaning, **answer._asdict()}
        for when in ("now", "then"):
            result[when] = {name.replace(" ", "_"): value for name, value in result[when].items()}
        write_texts([orjson.dumps(result).decode()], None)
    else:
        _print_answer(reason, answer)


def _print_answer(reason: NotChainableReason, answer: WhatIf) -> None:
    have = "edge has" if answer.edges == 1 else "edges have"
    print_line(
        f"{reason.value}: {answer.edges:,} {have} it; it is the only reason for {answer.alone:,} of them"
    )
    print_line(f"the change: {CHANGES[reason].meaning}")
    if not answer.alone:
        return
    print_line(f"topologies planned again with the change: {answer.topologies:,}")
    if answer.refused:
        print_line(f"Flink would then refuse {answer.refused:,} of them, which are not counted")
    print_line()
    rows = [
        (
            name,
            f"{answer.now[name]:,}",
            f"{answer.then[name]:,}",
            f"{answer.then[name] - answer.now[name]:+,}",
        )
        for name in FIGURES
    ]
    print_table([Column(""), *(Column(name, justify="right") for name in ("now", "then", "change"))], rows)


CONTEXT_SETTINGS = {"allow_interspersed_args": True}


def explain_command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A plan store, a topology file, or a script (.py) with a job."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="For a script: its sys.argv.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="NAME", help="The topology to explain; required if there are several."
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(
            "--operator",
            metavar="NAME",
            help="Only this operator and its edges: its name, uid, operator id or node.",
        ),
    ] = None,
    edge: Annotated[
        tuple[str, str] | None,
        typer.Option("--edge", metavar="A B", help="Only the edges from operator A to operator B."),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="REASON|CHANGE",
            help="For a store: the savings of all its topologies without this reason against chaining. For a "
            "script: the effect on its job of KEY=VALUE, an option of Flink, or of "
            "OPERATOR:parallelism=N.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write everything as one line of JSON, met conditions too.")
    ] = False,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="For a store; default: the newest.")
    ] = None,
    job: JobOption = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Explain why edges are chained or not, and where operator ids, slot sharing groups and slots come from.

    Without --operator or --edge: the reasons that keep each edge from being chained, and the slots of each
    group. With one of them: all conditions of chaining with their values, and where Flink checks them.

    Examples:
        penstock explain plans --topology word-count
        penstock explain plans --topology word-count --operator Tokenize
        penstock explain plans --what-if DIFFERENT_PARALLELISM

    Exit codes:
        2: No such topology.
        4: Not a store, or no such version.
        7: The topology was refused.
    """
    if without is not None and source.endswith(".py"):
        if topology or operator or edge or version is not None:
            raise ConfigurationError("--what-if for a script can be combined only with --job, -D and --json")

        _explain_what_if_of_script(
            script=source,
            arguments=list(arguments or []),
            change=without,
            job=job,
            configuration=given_configuration(config_dir, define),
            json=json,
        )
        return
    if without is not None:
        if arguments or topology or operator or edge or config_dir or define:
            raise ConfigurationError(
                "--what-if can be combined only with --version and --json",
                "it covers all topologies of a version",
            )
        explain_what_if(store=source, named=without, version=version, json=json)
        return
    if operator is not None and edge is not None:
        raise ConfigurationError("--operator and --edge cannot be combined", "name one of them")
    drawn = plan_of_source(source, list(arguments or []), topology, version, config_dir, define, job)
    plan = ExplainedPlan(drawn)
    explained = explain_plan(plan, operator, edge)
    if drawn.job is not None:
        from penstock.engine.views.explain_plan import explain_fusing

        explained["fusing"] = explain_fusing(drawn.job.lowered)
    if json:
        import orjson

        write_texts([orjson.dumps(explained).decode()], None)
    else:
        print_explanation(explained, whole=operator is None and edge is None)
