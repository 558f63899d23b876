"""`penstock size`: how many TaskManagers the jobs of a store need."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import polars as pl
import typer
from rich.table import Column

from penstock.engine.commands.chosen_plan import chosen_plan
from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.commands.overridden_settings import say_what_is_overridden
from penstock.engine.commands.reads_plan import PlansToRead, called, reads_plan
from penstock.engine.configuration.cluster_settings import NO_CLUSTER_SETTINGS, ClusterSettings
from penstock.engine.configuration.recorded_cluster import recorded_cluster
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Piece, Styled
from penstock.engine.output.say import say
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.plan_options import configured_task_manager, plan_options
from penstock.engine.store.manifest import PlanVersion
from penstock.engine.store.open_plan import StoredPlan, open_plan
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.resources.place_jobs import MODES, place_jobs, require_task_managers
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.flink_values import parse_memory_size

MOST = 10
"""Lines of a table that lists jobs."""

_NUMBERS = ("wanted", "pending", "missing")
_MEMORY = "memory of pending TaskManagers"
_MODES = ("session cluster", "one cluster per job")
_TEXT = ("", "jobs not placed", "largest jobs", "largest vertex")
_GIBIBYTE, _MEBIBYTE = 2**30, 2**20


@reads_plan()
def command(
    store: PlansToRead,
    slots_per_task_manager: Annotated[
        int | None,
        typer.Option(
            "--slots-per-task-manager",
            metavar="N",
            help="Slots of a TaskManager: taskmanager.numberOfTaskSlots. "
            "Default: as the configuration says, else as the plan was made for.",
        ),
    ] = None,
    task_manager_memory: Annotated[
        str | None,
        typer.Option(
            "--task-manager-memory",
            metavar="M",
            help="Memory of a TaskManager's process: taskmanager.memory.process.size, such as 4g. "
            "Default: as the configuration says, else as the plan was made for.",
        ),
    ] = None,
    available: Annotated[
        int | None,
        typer.Option(
            "--available",
            metavar="T",
            help="TaskManagers available in all; default: no limit. Jobs are placed in order of name, whole "
            "or not at all. A job wants TaskManagers for the slots that are not free on those already "
            "started (in a cluster of its own: for all its slots). They are pending if that many are left; "
            "otherwise some are missing and the job gets none. Totals are sums over jobs.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="NAME", help="Only this job, placed among all of them, and its groups."
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON, for programs.")] = False,
) -> None:
    """Say how many TaskManagers the jobs of a store need, in one cluster for all and in one cluster per job.

    A job needs the slots of all its slot sharing groups (see place_jobs for how it gets them). JobManagers
    are not counted.
    """
    configuration = given_configuration(config_dir, define)
    say_what_is_overridden(
        configuration,
        slots_per_task_manager=slots_per_task_manager,
        task_manager_memory=task_manager_memory,
    )
    slots_asked = 1 if slots_per_task_manager is None else slots_per_task_manager
    require_task_managers(slots_asked, available)
    given_memory = None if task_manager_memory is None else _memory_size(task_manager_memory)
    plan = open_plan(store, version)
    task_manager = _task_manager(configuration.cluster, plan.version, slots_per_task_manager)
    slots = task_manager.slots
    memory = task_manager.process_bytes if given_memory is None else given_memory
    chosen = plan.version
    if not plan.has("required_slots"):
        raise StoreError(
            f"{called(store)} version {chosen.version} has no slots", "plan it again with --until slots"
        )
    its_plan = None if topology is None else chosen_plan(store, chosen.version, topology)
    required = plan.table("required_slots").select(TOPOLOGY, "slot_sharing_group", "slots").collect()
    placed = place_jobs(_jobs(plan), required, slots, available)
    if json:
        _write_json(called(store), chosen, slots, memory, available, placed, topology)
        return
    say(*_cluster(called(store), chosen, slots, memory, available))
    if topology is None or its_plan is None:
        _print_fleet(placed, slots, memory)
    else:
        _print_job(topology, its_plan, placed.filter(pl.col("name") == topology).rows(named=True), memory)


def _task_manager(cluster: ClusterSettings, version: PlanVersion, slots: int | None) -> TaskManager:
    """The TaskManagers that a plan was made for, but for what is given now. Raises ConfigurationError."""
    options = {**plan_options().recorded, **version.options}
    recorded = recorded_cluster(options).task_manager
    chosen = slots or cluster.slots or recorded.slots
    if cluster.process_size is None and cluster.memory == NO_CLUSTER_SETTINGS.memory:
        return replace(recorded, slots=chosen)
    return configured_task_manager(cluster, chosen)


def _write_json(
    store: str,
    version: PlanVersion,
    slots: int,
    memory: int,
    available: int | None,
    placed: pl.DataFrame,
    topology: str | None,
) -> None:
    """The TaskManagers, and what jobs need of them: sums by mode of all jobs, or the named job."""
    import orjson

    said: dict[str, Any] = {
        "store": store,
        "version": version.version,
        "task_manager": {"slots": slots, "process_bytes": memory},
        "available_task_managers": available,
    }
    if topology is None:
        sums = _sums(placed)
        said |= {"jobs": sums["jobs"], "slots": sums["slots"]}
        columns: dict[str, tuple[str, ...]] = dict.fromkeys(MODES, ("jobs", "slots", *_NUMBERS))
    else:
        sums = next(iter(placed.filter(pl.col("name") == topology).rows(named=True)), {})
        said |= {"topology": topology, "slots": sums.get("slots")}
        columns = dict.fromkeys(MODES, ("placed", *_NUMBERS))
    for mode, label in zip(MODES, ("session_cluster", "cluster_per_job"), strict=True):
        said[label] = {name: sums[f"{mode}_{name}"] for name in columns[mode]} if sums else None
    write_texts([orjson.dumps(said).decode()], None)


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


def _jobs(plan: StoredPlan) -> pl.DataFrame:
    """The topologies that are planned: others never run."""
    return plan.table("topologies").select(TOPOLOGY, "name").collect()


def _cluster(
    store: str, version: PlanVersion, slots: int, memory: int, available: int | None
) -> tuple[Piece, Piece]:
    limit = "no limit" if available is None else f"{available:,} available"
    return (
        Styled(store, "bold"),
        f" version {version.version}: TaskManagers of {_slots(slots)} and {_exact(memory)}, {limit}",
    )


def _print_fleet(placed: pl.DataFrame, slots_per_task_manager: int, memory: int) -> None:
    sums = _sums(placed)
    modes = [_totals(sums, mode, slots_per_task_manager, memory) for mode in MODES]
    _print_table(("", *_MODES), [(label, *(mode[label] for mode in modes)) for label in modes[0]])
    _print_not_placed(placed)
    _print_largest(placed)


def _sums(placed: pl.DataFrame) -> dict[str, int]:
    """`jobs`, their `slots`, and for each mode the jobs placed, their slots, and sums of TaskManagers."""
    counted = [pl.len().alias("jobs"), pl.col("slots").sum()]
    for mode in MODES:
        is_placed = pl.col(f"{mode}_placed")
        counted += [
            is_placed.sum().alias(f"{mode}_jobs"),
            pl.col("slots").filter(is_placed).sum().alias(f"{mode}_slots"),
            *(pl.col(f"{mode}_{n}").sum() for n in _NUMBERS),
        ]
    return placed.select(counted).row(0, named=True)


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


def _print_not_placed(placed: pl.DataFrame) -> None:
    without = placed.filter(~pl.col("session_placed") | ~pl.col("job_placed"))
    columns = ("session_wanted", "session_missing", "job_wanted", "job_missing")
    rows = [
        (row["name"], f"{row['slots']:,}", *(f"{row[column]:,}" for column in columns))
        for row in without.sort("name").head(MOST).rows(named=True)
    ]
    if rows:
        _print_table(("jobs not placed", "slots", *(column.replace("_", " ") for column in columns)), rows)
        more = len(without) - len(rows)
        if more:
            say(f"… and {more:,} more")


def _print_largest(placed: pl.DataFrame) -> None:
    rows = [
        (
            row["name"],
            f"{row['slots']:,}",
            "-" if row["largest_slot_sharing_group"] is None else str(row["largest_slot_sharing_group"]),
            f"{row['largest_slots']:,}",
            f"{row['session_wanted']:,}",
            f"{row['job_wanted']:,}",
        )
        for row in placed.sort("slots", "name", descending=[True, False]).head(MOST).rows(named=True)
    ]
    if rows:
        columns = ("slots", "largest group", "its slots", "session wanted", "job wanted")
        _print_table(("largest jobs", *columns), rows)


def _print_job(name: str, plan: StoredPlan, found: Sequence[Mapping[str, Any]], memory: int) -> None:
    if not found:
        say(f"{name} is refused and needs no slots; penstock rejected says why")
        return
    job = found[0]
    say(Styled(name, "bold"), f": {_slots(job['slots'])}")
    groups = plan.table("required_slots").with_columns(named=pl.col("largest_vertex").cast(pl.String))
    if plan.has("job_vertices"):
        vertices = plan.table("job_vertices").select("name", largest_vertex="vertex")
        groups = groups.join(vertices, on="largest_vertex", how="left")
        groups = groups.with_columns(named=pl.coalesce("name", "named"))
    columns = ("slot_sharing_group", "slots", "tasks", "vertices")
    in_order = groups.sort("slots", "slot_sharing_group", descending=[True, False])
    rows = [
        (str(row["slot_sharing_group"]), *(f"{row[c]:,}" for c in columns[1:]), row["named"])
        for row in in_order.select(*columns, "named").collect().rows(named=True)
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
    say()
    print_table(
        [Column(name) if name in _TEXT else Column(name, justify="right", no_wrap=True) for name in columns],
        rows,
    )
