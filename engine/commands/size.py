"""`penstock size`: how many TaskManagers the jobs of a store need."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from engine.commands.chosen_plan import chosen_plan
from engine.commands.people import console_for_people, print_table
from engine.session import get_session
from engine.store.plan_versions import PlanVersion, find_version
from plans.errors import ConfigurationError, StoreError
from plans.resources.place_jobs import MODES, place_jobs, require_task_managers
from plans.topology.flink_values import parse_memory_size

MOST = 10
"""Lines of a table that lists jobs."""

_NUMBERS = ("wanted", "pending", "missing")
_MEMORY = "memory of pending TaskManagers"
_MODES = ("session cluster", "one cluster a job")
_TEXT = ("", "jobs not placed", "largest jobs", "largest vertex")
_GIBIBYTE, _MEBIBYTE = 2**30, 2**20


def command(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="A plan store that penstock plan has written with --until slots."
        ),
    ],
    slots_per_task_manager: Annotated[
        int,
        typer.Option(
            "--slots-per-task-manager",
            metavar="N",
            help="Slots of a TaskManager; default 1, as of Flink's taskmanager.numberOfTaskSlots.",
        ),
    ] = 1,
    task_manager_memory: Annotated[
        str,
        typer.Option(
            "--task-manager-memory",
            metavar="M",
            help="Memory of a TaskManager's process, such as 4g; default 1728m, as of "
            "taskmanager.memory.process.size in the config.yaml that comes with Flink.",
        ),
    ] = "1728m",
    available: Annotated[
        int | None,
        typer.Option(
            "--available",
            metavar="T",
            help="TaskManagers there are in all; default: no limit. Jobs get theirs in order of name, whole "
            "or not at all: a job wants TaskManagers for the slots that those already started do not have "
            "free (of a cluster of its own: for all its slots); they are pending if that many are left, "
            "else some are missing and the job takes nothing. Totals are sums over jobs.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="One job, at its place among all, and its groups."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
) -> None:
    """Say how many TaskManagers the jobs of a store need, in one cluster for all and in one a job.

    A job needs the slots of all its slot sharing groups (see place_jobs for how it gets them). JobManagers
    are not counted.
    """
    require_task_managers(slots_per_task_manager, available)
    memory = _memory_size(task_manager_memory)
    spark = get_session(app_name="penstock size")
    chosen = find_version(spark, store, version)
    if "required_slots" not in chosen.tables:
        raise StoreError(f"{store} version {chosen.version} has no slots", "plan it again with --until slots")
    tables = chosen_plan(spark, store, chosen.version, None)
    placed = place_jobs(_jobs(tables), tables["required_slots"], slots_per_task_manager, available)
    cluster = _cluster(store, chosen, slots_per_task_manager, memory, available)
    if topology is None:
        console_for_people().print(cluster)
        _print_fleet(placed, slots_per_task_manager, memory)
    else:
        its_tables = chosen_plan(spark, store, chosen.version, topology)
        console_for_people().print(cluster)
        _print_job(topology, its_tables, placed.where(F.col("name") == topology).collect(), memory)


def _memory_size(text: str) -> int:
    try:
        size = parse_memory_size(text)
    except ValueError as error:
        raise ConfigurationError(
            f"--task-manager-memory {text!r}: {error}", "Flink's memory sizes, e.g. 1728m or 4g"
        ) from error
    if size == 0:
        raise ConfigurationError(f"--task-manager-memory {text!r}: found no memory", "e.g. 1728m or 4g")
    return size


def _jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The topologies that Flink does not refuse: others never run."""
    refused = tables["rejected"].select("topology_id").where("error_stage != 'input'")
    return tables["topologies"].join(refused, "topology_id", "left_anti")


def _cluster(store: str, version: PlanVersion, slots: int, memory: int, available: int | None) -> str:
    limit = "no limit" if available is None else f"{available:,} available"
    return (
        f"[bold]{escape(store)}[/bold] version {version.version}: TaskManagers of "
        f"{_slots(slots)} and {_exact(memory)}, {limit}"
    )


def _print_fleet(placed: DataFrame, slots_per_task_manager: int, memory: int) -> None:
    kept = placed.persist()
    try:
        sums = _sums(kept)
        modes = [_totals(sums, mode, slots_per_task_manager, memory) for mode in MODES]
        _print_table(("", *_MODES), [(label, *(mode[label] for mode in modes)) for label in modes[0]])
        _print_not_placed(kept)
        _print_largest(kept)
    finally:
        kept.unpersist()


def _sums(placed: DataFrame) -> dict[str, int]:
    """`jobs`, their `slots`, and for each mode the jobs placed, their slots, and sums of TaskManagers."""
    counted = [F.count("*").alias("jobs"), F.sum("slots").alias("slots")]
    for mode in MODES:
        is_placed = F.col(f"{mode}_placed")
        counted += [
            F.count_if(is_placed).alias(f"{mode}_jobs"),
            F.sum(F.when(is_placed, F.col("slots"))).alias(f"{mode}_slots"),
            *(F.sum(f"{mode}_{n}").alias(f"{mode}_{n}") for n in _NUMBERS),
        ]
    return {name: number or 0 for name, number in placed.agg(*counted).collect()[0].asDict().items()}


def _totals(sums: Mapping[str, int], mode: str, slots_per_task_manager: int, memory: int) -> dict[str, str]:
    used, pending = sums[f"{mode}_slots"], sums[f"{mode}_pending"]
    started = pending * slots_per_task_manager
    # Without a limit a session cluster never starts a TaskManager while a slot is free.
    for_all = -(-sums["slots"] // slots_per_task_manager) if mode == "session" else sums["job_wanted"]
    return {
        "jobs": f"{sums['jobs']:,}",
        "jobs placed": f"{sums[f'{mode}_jobs']:,}",
        "slots of all jobs": f"{sums['slots']:,}",
        "slots in use": f"{used:,}",
        "slots free": f"{started - used:,}",
        "utilisation of slots": f"{used / started:.1%}" if started else "-",
        **{f"TaskManagers {n}": f"{sums[f'{mode}_{n}']:,}" for n in _NUMBERS},
        "TaskManagers that would hold all jobs": f"{for_all:,}",
        _MEMORY: _rounded(pending * memory),
    }


def _print_not_placed(placed: DataFrame) -> None:
    without = placed.where("NOT session_placed OR NOT job_placed")
    columns = ("session_wanted", "session_missing", "job_wanted", "job_missing")
    rows = [
        (row["name"], f"{row['slots']:,}", *(f"{row[column]:,}" for column in columns))
        for row in without.orderBy("name").limit(MOST).collect()
    ]
    if rows:
        _print_table(("jobs not placed", "slots", *(column.replace("_", " ") for column in columns)), rows)
        more = without.count() - len(rows)
        if more:
            console_for_people().print(f"… and {more:,} more")


def _print_largest(placed: DataFrame) -> None:
    rows = [
        (
            row["name"],
            f"{row['slots']:,}",
            "-" if row["largest_slot_sharing_group"] is None else str(row["largest_slot_sharing_group"]),
            f"{row['largest_slots']:,}",
            f"{row['session_wanted']:,}",
            f"{row['job_wanted']:,}",
        )
        for row in placed.orderBy(F.desc("slots"), "name").limit(MOST).collect()
    ]
    if rows:
        columns = ("slots", "largest group", "its slots", "session wanted", "job wanted")
        _print_table(("largest jobs", *columns), rows)


def _print_job(name: str, tables: Mapping[str, DataFrame], found: Sequence[Row], memory: int) -> None:
    console = console_for_people()
    if not found:
        console.print(f"{escape(name)} is refused and needs no slots; penstock rejected says why")
        return
    job = found[0]
    console.print(f"[bold]{escape(name)}[/bold]: {_slots(job['slots'])}")
    groups = tables["required_slots"].withColumn("named", F.col("largest_vertex").cast("string"))
    if "job_vertices" in tables:
        vertices = tables["job_vertices"].select("topology_id", F.col("vertex").alias("v"), "name")
        same = [groups["topology_id"] == vertices["topology_id"], F.col("largest_vertex") == F.col("v")]
        groups = groups.join(vertices, same, "left").withColumn("named", F.coalesce("name", "named"))
    columns = ("slot_sharing_group", "slots", "tasks", "vertices")
    rows = [
        (str(row["slot_sharing_group"]), *(f"{row[c]:,}" for c in columns[1:]), row["named"])
        for row in groups.select(*columns, "named").orderBy(F.desc("slots"), "slot_sharing_group").collect()
    ]
    if rows:
        _print_table((*(column.replace("_", " ") for column in columns), "largest vertex"), rows)
    numbers = [(f"TaskManagers {n}", *(f"{job[f'{mode}_{n}']:,}" for mode in MODES)) for n in _NUMBERS]
    placed = ("placed", *("yes" if job[f"{mode}_placed"] else "no" for mode in MODES))
    used = (_rounded(job[f"{mode}_pending"] * memory) for mode in MODES)
    _print_table(("", *_MODES), [placed, *numbers, (_MEMORY, *used)])


def _slots(count: int) -> str:
    return f"{count:,} slot{'' if count == 1 else 's'}"


def _exact(memory: int) -> str:
    return f"{memory:,} bytes" if memory % _MEBIBYTE else f"{memory // _MEBIBYTE:,} MiB"


def _rounded(memory: int) -> str:
    return f"{memory / _GIBIBYTE:,.1f} GiB"


def _print_table(columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for name in columns:
        is_text = name in _TEXT
        table.add_column(name, justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console_for_people().print()
    print_table(table)
