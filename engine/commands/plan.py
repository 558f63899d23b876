"""The command `penstock plan`, which plans topologies into a store."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.engine.commands.chosen_cluster import chosen_cluster, print_overridden_settings
from penstock.engine.commands.export import ExportFormat, lines_of_plan
from penstock.engine.commands.import_files import print_imports
from penstock.engine.commands.key_values import (
    Conf,
    ConfigDir,
    Define,
    PropertiesFile,
    given_configuration,
    given_settings,
)
from penstock.engine.commands.reads_plan import require_store, tables_read_once
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.plan_options import DEFAULT_PROCESS_SIZE, DEFAULT_SLOTS, plan_options
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import ChosenPlanner, Planner, choose_planner, plan_topologies
from penstock.engine.run.clusters.session_plans import PlanRequest, ask_for_plan
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_source import HOLDS_PLANS, SourceKind, require_kind
from penstock.engine.store.store_location import is_local, locate, store_errors
from penstock.plans.errors import ConfigurationError, InputError, RefusedTopologiesError
from penstock.plans.layers import PlanOptions
from penstock.plans.printable import limited, printable, printable_lines
from penstock.plans.topology.find_topology_files import TopologyPaths, examine_paths
from penstock.plans.topology.flink_options import parse_memory_size
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, Layer, SlotSharingStrategy

if TYPE_CHECKING:
    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners

# The options of the command.


class NetworkProfile(StrEnum):
    """Versions of Flink whose network defaults --network accepts."""

    FLINK_2_3 = "flink-2.3"
    FLINK_1_20 = "flink-1.20"


_Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="Topology files (JSON lines, or JSON over many lines: objects or arrays of them; .gz), "
        "directories or globs of them, - for standard input, one folder of tables, plan stores, or "
        "scripts (.py) with jobs. Also Flink's JSON (a job's plan from its REST interface, "
        "getExecutionPlan()), and the output of penstock export and info --json.",
    ),
]
_Out = Annotated[str, typer.Option("--out", metavar="STORE", help="The plan store to add a version to.")]
_Until = Annotated[
    Layer, typer.Option("--until", metavar="LAYER", help=f"The last layer to plan: {', '.join(Layer)}.")
]
_SlotSharing = Annotated[
    SlotSharingStrategy | None,
    typer.Option(
        "--slot-sharing",
        metavar="NAME",
        help=f"The strategy that decides which tasks share a slot: {', '.join(SlotSharingStrategy)}. "
        f"Default: {DEFAULT_SLOT_SHARING_STRATEGY}, or the configured one.",
    ),
]
_Network = Annotated[
    NetworkProfile,
    typer.Option(
        "--network",
        metavar="VERSION",
        help=f"The version of Flink whose network defaults apply: {', '.join(NetworkProfile)}.",
    ),
]
_Slots = Annotated[
    int | None,
    typer.Option(
        "--slots-per-task-manager",
        metavar="N",
        help=f"Slots of each TaskManager. Default: {DEFAULT_SLOTS}, or the configured number.",
    ),
]
_Memory = Annotated[
    str | None,
    typer.Option(
        "--task-manager-memory",
        metavar="M",
        help="Memory of each TaskManager's process, such as 4g. "
        f"Default: {DEFAULT_PROCESS_SIZE}, or the configured size.",
    ),
]
_Parallelism = Annotated[
    int | None,
    typer.Option(
        "--parallelism",
        metavar="N",
        help="Parallelism of operators that set none; wins over their job's default.",
    ),
]
_PlannerName = Annotated[
    str,
    typer.Option(
        "--planner",
        autocompletion=lambda: [*map(str, Planner)],
        metavar="NAME",
        help="The planner; plans are the same. process: in this process. workers: in Spark's workers, "
        "whole topologies in each. blocks: as workers, and topologies too large for a worker in blocks. "
        "auto: process if the input is local and fits in memory, else workers, or blocks if a topology "
        "is too large. Former names: columnar for process or workers, joins for blocks. flink: "
        "process, checked against the real Flink; topologies that Flink refuses or plans differently are "
        "rejected. Needs a JDK and pip install 'penstock-spark\\[flink]'. PACKAGE.MODULE:FUNCTION or an "
        "entry point of the group penstock.planners: a custom planner replaces Flink's rules, in this "
        "process or, with --master, in Spark's workers.",
    ),
]
_Costs = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="COSTS",
        help="Costs of operators, for a custom planner that reads operator_costs: a table (JSON "
        "lines, .csv, .parquet), a store with runs, drawn by a hash, or all alike. Default: the costs in "
        "the topologies, else all alike.",
    ),
]
_TimeLimit = Annotated[
    int,
    typer.Option(
        "--time-limit", min=1, metavar="S", help="Seconds that a custom planner may take for each batch."
    ),
]
_MaxLineSize = Annotated[
    str, typer.Option("--max-line-size", metavar="SIZE", help="Reject longer lines, e.g. 2g.")
]
_Strict = Annotated[bool, typer.Option("--strict", help="Exit with 7 if any topology is refused.")]
_Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master; default local[*].")
]
_SessionName = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="Plan on the Spark of this session.")
]
_CheckpointDir = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-dir",
        metavar="DIR",
        help="On a cluster: a folder that all executors reach, for the checkpoints of giants in blocks. "
        "Without it executors keep two copies. Its contents are removed at the end.",
    ),
]


def plan_command(
    context: typer.Context,
    inputs: _Inputs,
    out: _Out,
    until: _Until = Layer.SLOTS,
    slot_sharing: _SlotSharing = None,
    network: _Network = NetworkProfile.FLINK_2_3,
    slots_per_task_manager: _Slots = None,
    task_manager_memory: _Memory = None,
    parallelism: _Parallelism = None,
    planner: _PlannerName = Planner.AUTO.value,
    costs: _Costs = None,
    time_limit: _TimeLimit = 60,
    max_line_size: _MaxLineSize = f"{MAX_LINE_BYTES // 2**20}m",
    strict: _Strict = False,
    config_dir: ConfigDir = None,
    define: Define = None,
    conf: Conf = None,
    properties_file: PropertiesFile = None,
    master: _Master = None,
    session: _SessionName = None,
    checkpoint_dir: _CheckpointDir = None,
) -> None:
    """Plan the topologies of INPUT as a new version of STORE.

    Topologies that are wrong, or that Flink refuses, are in the version, too: `penstock rejected` lists them.
    If the newest version holds the same topologies, planned in the same way, nothing is written.

    Examples:
        penstock plan jobs.jsonl --out plans
        penstock plan fleet/ more.jsonl.gz --out plans --until job_graph
        penstock plan jobs.jsonl --out plans --planner flink

    Exit codes:
        3: INPUT cannot be read, or holds no topology.
        4: STORE cannot be written as a store.
        7: All topologies were refused, or any with --strict; the version is written.
    """
    planner = _planner(planner)
    settings = given_settings(properties_file, conf)
    configuration = given_configuration(config_dir, define)
    context.with_resource(tables_read_once())
    require_store(out)
    options = plan_options(
        until,
        slot_sharing,
        network.value,
        slots_per_task_manager,
        task_manager_memory,
        parallelism,
        cluster=configuration.cluster,
        job_defaults=configuration.job_defaults,
        max_line_bytes=_bytes(max_line_size),
    )
    print_overridden_settings(
        configuration,
        slot_sharing=slot_sharing,
        slots_per_task_manager=slots_per_task_manager,
        task_manager_memory=task_manager_memory,
        master=master,
        spark=settings,
    )
    custom_planners = _custom_planners(planner, costs, time_limit)
    asked = planner if isinstance(planner, Planner) else Planner.COLUMNAR
    paths = context.with_resource(_sources_as_files(inputs, options, configuration.scripts))
    chosen = choose_planner(asked, paths, out, bool(settings or master or session or checkpoint_dir))
    spark = _SparkOptions(
        master, session, {**configuration.spark, **settings}, checkpoint_dir, custom_planners
    )
    stored = plan_topologies(
        paths,
        options,
        chosen,
        out,
        asked=asked,
        custom_planners=custom_planners,
        on_spark=lambda chosen: partial(_plan_on_spark, spark, chosen),
        progress=progress,
    )
    _print_result(stored, out, dict(zip(paths.paths, inputs, strict=True)), strict)


def _planner(word: str) -> str:
    """Parse --planner into a Planner, or the name of a custom planner."""
    try:
        return Planner(word)
    except ValueError:
        from penstock.engine.planning.find_custom_planners import names_custom_planner

        if names_custom_planner(word):
            return word
        raise typer.BadParameter(
            f"{word!r} is not one of {', '.join(map(repr, map(str, Planner)))}, nor a "
            "package.module:function or an entry point of the group penstock.planners.",
            param_hint="'--planner'",
        ) from None


def _custom_planners(planner: str, costs: str | None, time_limit: int) -> "CustomPlanners | None":
    """Return the custom planner; None for a planner of Penstock."""
    if isinstance(planner, Planner):
        if costs is not None:
            raise ConfigurationError(f"--costs {costs}: --planner {planner} does not use costs")
        return None
    from penstock.engine.planning.plan_by_custom_planners import named_custom_planners

    return named_custom_planners(planner, costs, time_limit)


def _bytes(size: str) -> int:
    try:
        size_bytes = parse_memory_size(size)
    except ValueError as error:
        raise ConfigurationError(
            f"--max-line-size {size!r}: {error}", "give a size such as 64m or 2g"
        ) from None
    if size_bytes < 1:
        raise ConfigurationError(f"--max-line-size {size!r}: must be at least 1 byte")
    return size_bytes


# Stores and scripts among the inputs: their topologies are written to files, which every planner reads.


_MAX_NAME_LENGTH = 40


@contextmanager
def _sources_as_files(
    inputs: Sequence[str], options: PlanOptions, scripts: Mapping[str, str]
) -> Iterator[TopologyPaths]:
    """Replace each store and script among `inputs` by a file of topology lines inside the context.

    The file of a store holds the topologies that its newest version, or the version in STORE@VERSION, has
    planned. A store keeps no text of rejected topologies; a message says how many are left out. The file of a
    script holds its jobs, planned with `scripts`, options of environments. Raises StoreError, ScriptError,
    and InputError for an input without plans (see require_kind).
    """
    given, files = examine_paths(inputs), []
    with short_lived_folder("plan") as folder:
        for number, path in enumerate(given.paths):
            # a path on another file system is left to Spark
            source = None if path and path in given.elsewhere else require_kind(path, None, *HOLDS_PLANS)
            place = Path(folder) / str(number)
            if source is not None and source.kind is SourceKind.STORE:
                files.append(_topologies_of_store(source.path, source.version, place))
            elif source is not None and source.kind is SourceKind.SCRIPT:
                from penstock.engine.library.open_source import topologies_of_script

                place.mkdir()
                files.append(str(topologies_of_script(path, place, options, scripts)))
            else:
                files.append(path)
        yield given._replace(paths=files, tables=[path for path in given.tables if path in files])


def _topologies_of_store(store: str, version: int | None, place: Path) -> str:
    with store_errors(store, "reading"):
        plan = open_plan(store, version)
        if not plan.planned:
            raise InputError(f"{store}: version {plan.version} has no planned topologies")
        # Messages about the topologies quote the file's name.
        called = os.path.basename(locate(store).join())[:_MAX_NAME_LENGTH]
        file = place / f"{called}@{plan.version}.jsonl"
        file.parent.mkdir()
        write_texts(lines_of_plan(plan, ExportFormat.TOPOLOGIES), file)
    if rejected := plan.rejected:
        print_beside_output(
            f"{store}: {rejected:,} rejected topologies are left out: a store keeps only their errors"
        )
    return str(file)


# Planning on Spark: in a session, or in a Spark of this command.


class _SparkOptions(NamedTuple):
    """Options of the command that concern planning on Spark; `conf` are Spark's settings."""

    master: str | None
    session: str | None
    conf: Mapping[str, str]
    checkpoint_dir: str | None
    custom_planners: "CustomPlanners | None"


def _plan_on_spark(
    spark: _SparkOptions,
    chosen: ChosenPlanner,
    source: TopologyPaths,
    options: PlanOptions,
    out: str,
    report: Report,
) -> PlanResult:
    """Plan on the cluster that `penstock run` would choose.

    Raises ConfigurationError if the session does not run or cannot plan this.
    """
    cluster = chosen_cluster(spark.master, spark.session, spark.conf, verbose=False)
    if cluster.session is not None:
        _require_session_plans(cluster.session.name, spark, source)
        paths = list(map(_absolute, source.paths))
        asked = PlanRequest(paths, options, _absolute(out), chosen.planner, spark.conf)
        planned = ask_for_plan(cluster.session, asked, report)
        assert isinstance(planned, PlanResult)
        return planned
    from penstock.engine.planning.plan_on_spark import plan_on_spark
    from penstock.engine.planning.planning_settings import settings_for_planner
    from penstock.engine.spark.session import get_session

    report("start Spark")
    of_jvm = settings_for_planner(chosen.planner)
    return plan_on_spark(
        source,
        options,
        out,
        report,
        spark=get_session(master=cluster.master, conf=spark.conf, app_name="penstock plan", of_jvm=of_jvm),
        planner=chosen.planner,
        custom_planners=spark.custom_planners,
        checkpoint_dir=spark.checkpoint_dir,
    )


def _require_session_plans(name: str, spark: _SparkOptions, source: TopologyPaths) -> None:
    """Raise ConfigurationError for options and pipes that the server of a session cannot take."""
    if spark.custom_planners is not None:
        raise ConfigurationError(
            f"--planner {spark.custom_planners.name}: session {name!r} refuses custom planners",
            "give --master, or plan without a session",
        )
    if spark.checkpoint_dir is not None:
        raise ConfigurationError(
            f"--checkpoint-dir {spark.checkpoint_dir}: session {name!r} keeps tables in its executors",
            "leave it out, or give --master",
        )
    if source.pipes:
        raise ConfigurationError(
            f"{source.pipes[0]}: the server of session {name!r} cannot read a pipe of this command",
            "write it to a file, or plan without a session",
        )


def _absolute(path: str) -> str:
    """Return the path as the server, which has a different working folder, finds it."""
    return path if "://" in path or path.startswith("file:") else str(Path.cwd() / path)


# The result of the command.


_MAX_REASON_LENGTH = 500
"""Characters of a reason that the terminal shows."""


def _print_result(stored: PlanResult, out: str, names: Mapping[str, str], strict: bool) -> None:
    """Print counts, imports and the first reason of a refusal; `names`: of inputs, by path.

    Raises RefusedTopologiesError if nothing was planned, or, with `strict`, if any topology was refused.
    """
    assert stored.version is not None
    print_line(
        f"{out}: version {stored.version} holds {stored.planned:,} planned and {stored.rejected:,} rejected "
        f"of {stored.inputs:,} topologies (planner {stored.planner}: {stored.why})"
        + ("; unchanged, nothing was written" if stored.version.unchanged else "")
    )
    in_reach = is_local(out)
    if in_reach:
        print_imports(out, stored.version, names)
    if not stored.rejected:
        return
    reason = _first_reason(out, stored.version) if in_reach else ""
    if not stored.planned or strict:
        refused = f"{stored.rejected:,} of {stored.inputs:,} topologies were refused"
        problem = f"{refused}, and --strict allows none"
        if not stored.planned:
            problem = f"nothing was planned: {refused}"
        raise RefusedTopologiesError(
            f"{problem}; the first is {reason}" if reason else problem,
            f"penstock rejected {out} lists the reasons; version {stored.version} was written",
        )
    if reason:
        print_beside_output(f"the first rejected is {reason}")
    print_beside_output(StyledText(f"penstock rejected {out} lists the reasons", "dim"))


def _first_reason(store: str, version: int) -> str:
    """Describe the first rejected topology in a line."""
    order = ("name", "source_file", "source_line")
    first = open_plan(store, version).table("rejected").sort(order).head(1).collect()
    row = first.to_dicts()[0]
    place = "" if row["source_file"] is None else f"{row['source_file']}:{row['source_line']}"
    message = printable_lines(str(row["message"] or "").partition("\n")[0])
    return limited(f"{printable(row['name'] or place)}: {row['error']}: {message}", _MAX_REASON_LENGTH)
