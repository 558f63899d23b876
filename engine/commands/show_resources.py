"""What plans need of a cluster, and what dominates it."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.markup import escape
from rich.table import Table

from engine.commands.people import console_for_people, print_table
from plans.frames import TOPOLOGY, join_local, rename
from plans.resources.network_options import PROFILES, NetworkOptions
from plans.resources.task_manager import TaskManager
from plans.resources.task_network_buffers import slot_network_buffers, task_network_buffers

MOST = 5
"""Lines of a table that ranks."""

_MEBIBYTE = 2**20
_NEEDED = ("job_vertices", "execution_job_vertices", "required_slots", "network_buffers", "managed_memory")


def has_resources(tables: Mapping[str, DataFrame]) -> bool:
    """Whether the plan goes as far as slots."""
    return all(name in tables for name in _NEEDED)


def show_fleet_resources(tables: Mapping[str, DataFrame], options: Mapping[str, str]) -> None:
    """Print tasks, slots, TaskManagers, buffers and memory of all jobs, and the largest of each.

    `options`: the plan's, which say what TaskManagers and whose network defaults it was made for.
    """
    task_manager, _ = _cluster(options)
    per_vertex = _buffers_of_vertices(tables, options)
    slots = tables["required_slots"].groupBy(TOPOLOGY).agg(F.sum("slots").alias("slots"))
    wanted = F.ceil(F.col("slots") / task_manager.slots)
    of_jobs = slots.agg(
        F.coalesce(F.sum("slots"), F.lit(0)).alias("slots"),
        F.coalesce(F.sum(wanted), F.lit(0)).alias("task_managers"),
    ).collect()[0]
    of_tasks = per_vertex.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("parallelism", "buffers", "bytes"))
    ).collect()[0]
    shared = -(-of_jobs["slots"] // task_manager.slots)
    rows = [
        ("tasks", f"{of_tasks['parallelism']:,}"),
        ("slots", f"{of_jobs['slots']:,}"),
        ("TaskManagers, one cluster for all jobs", f"{shared:,}"),
        ("TaskManagers, one cluster a job", f"{of_jobs['task_managers']:,}"),
        (
            "memory of TaskManagers, one cluster a job",
            _mebibytes(of_jobs["task_managers"] * task_manager.process_bytes),
        ),
        ("network buffers required, at most", f"{of_tasks['buffers']:,}"),
        ("network memory required, at most", _mebibytes(of_tasks["bytes"])),
    ]
    _print_table((f"resources ({_described(task_manager, options)})", "count"), rows)
    _print_largest_groups(tables)
    _print_largest_vertices(tables, per_vertex)


def show_topology_resources(tables: Mapping[str, DataFrame], options: Mapping[str, str]) -> None:
    """Print slots, buffers and memory of one job by slot sharing group, and whether its TaskManagers do."""
    task_manager, network = _cluster(options)
    of_tasks = task_network_buffers(tables["network_buffers"], tables["job_vertices"], options=network)
    of_slots = slot_network_buffers(of_tasks, options=network).drop("vertices")
    groups = rename(
        of_slots,
        of_group="slot_sharing_group",
        required="required",
        target="target",
        required_bytes="required_bytes",
    )
    names = rename(tables["job_vertices"], of_vertex="vertex", vertex_name="name")
    joined = join_local(tables["required_slots"], groups, {"slot_sharing_group": "of_group"}, "left")
    found = join_local(joined, names, {"largest_vertex": "of_vertex"}).orderBy(
        F.desc("slots"), "slot_sharing_group"
    )
    rows = found.collect()
    if not rows:
        return
    _print_table(
        ("slot sharing group", "slots", "tasks", "buffers a slot", "network MiB a slot", "set by"),
        [
            (
                str(row["slot_sharing_group"]),
                f"{row['slots']:,}",
                f"{row['tasks']:,}",
                f"{row['required']:,}",
                f"{row['required_bytes'] / _MEBIBYTE:,.1f}",
                _short(row["vertex_name"]),
            )
            for row in rows
        ],
    )
    slots = sum(row["slots"] for row in rows)
    most = max(row["required_bytes"] for row in rows) * task_manager.slots
    console_for_people().print(
        f"{slots:,} slots in {-(-slots // task_manager.slots):,} {_described(task_manager, options)}; "
        f"a full one requires {_mebibytes(most)} of its {_mebibytes(task_manager.network_bytes)} "
        "network memory"
        + ("" if most <= task_manager.network_bytes else " [red]which is too little[/red]")
        + f", {_mebibytes(task_manager.managed_bytes_per_slot)} managed memory a slot"
    )


def _cluster(options: Mapping[str, str]) -> tuple[TaskManager, NetworkOptions]:
    manager = TaskManager(options["task_manager_memory"], int(options["slots_per_task_manager"]))
    return manager, PROFILES[options["network"]]


def _described(task_manager: TaskManager, options: Mapping[str, str]) -> str:
    slots = f"{task_manager.slots} slot{'' if task_manager.slots == 1 else 's'}"
    return f"TaskManagers of {slots} and {task_manager.process_size}, {options['network']}"


def _buffers_of_vertices(tables: Mapping[str, DataFrame], options: Mapping[str, str]) -> DataFrame:
    """One row a job vertex: parallelism, required buffers of its largest task, and of all: buffers, bytes."""
    _, network = _cluster(options)
    of_tasks = task_network_buffers(tables["network_buffers"], tables["job_vertices"], options=network)
    effective = rename(tables["execution_job_vertices"], of_vertex="vertex", parallelism="parallelism")
    return join_local(of_tasks, effective, {"vertex": "of_vertex"}).select(
        TOPOLOGY,
        "vertex",
        "parallelism",
        "required",
        (F.col("required") * F.col("parallelism")).alias("buffers"),
        (F.col("required_bytes") * F.col("parallelism")).alias("bytes"),
    )


def _print_largest_groups(tables: Mapping[str, DataFrame]) -> None:
    topologies = rename(tables["topologies"], topology="name")
    vertices = rename(tables["job_vertices"], of_vertex="vertex", vertex_name="name")
    most = tables["required_slots"].orderBy(F.desc("slots"), TOPOLOGY, "slot_sharing_group").limit(MOST)
    named = join_local(join_local(most, topologies, {}), vertices, {"largest_vertex": "of_vertex"})
    rows = [
        (row["topology"], str(row["slot_sharing_group"]), f"{row['slots']:,}", _short(row["vertex_name"]))
        for row in named.orderBy(F.desc("slots"), "topology", "slot_sharing_group").collect()
    ]
    if rows:
        _print_table(("most slots", "slot sharing group", "slots", "set by"), rows)


def _print_largest_vertices(tables: Mapping[str, DataFrame], per_vertex: DataFrame) -> None:
    topologies = rename(tables["topologies"], topology="name")
    vertices = rename(tables["job_vertices"], of_vertex="vertex", vertex_name="name")
    most = per_vertex.orderBy(F.desc("buffers"), TOPOLOGY, "vertex").limit(MOST)
    named = join_local(join_local(most, topologies, {}), vertices, {"vertex": "of_vertex"})
    rows = [
        (
            row["topology"],
            _short(row["vertex_name"]),
            f"{row['parallelism']:,}",
            f"{row['required']:,}",
            f"{row['buffers']:,}",
        )
        for row in named.orderBy(F.desc("buffers"), "topology", "vertex").collect()
    ]
    if rows:
        _print_table(("most buffers", "vertex", "tasks", "a task", "required"), rows)


def _mebibytes(size: int) -> str:
    return f"{size / _MEBIBYTE:,.0f} MiB"


def _short(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for position, name in enumerate(columns):
        text = position == 0 or name in ("set by", "vertex")
        table.add_column(name, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console_for_people().print()
    print_table(table)
