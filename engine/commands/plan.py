"""`penstock plan`: topologies into a store of plans."""

from enum import StrEnum
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from engine.plan_topologies import plan_tables, read_topologies
from engine.progress import progress
from engine.run_passes import stages
from engine.session import get_session
from engine.store.write_plan import write_plan
from plans.errors import ConfigurationError
from plans.passes import Choices
from plans.resources.network_options import PROFILES
from plans.resources.task_manager import TaskManager
from plans.vocabulary import Layer, SlotSharingStrategy


class Until(StrEnum):
    """The layers that --until takes."""

    STREAM_GRAPH = "stream_graph"
    JOB_GRAPH = "job_graph"
    EXECUTION_GRAPH = "execution_graph"
    SLOTS = "slots"


class NetworkProfile(StrEnum):
    """The versions of Flink whose network defaults --network takes."""

    FLINK_2_3 = "flink-2.3"
    FLINK_1_20 = "flink-1.20"


def command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Topology files (JSON lines, .gz), directories or globs of them, or one folder of tables.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="STORE", help="The plan store to write a version to.")],
    until: Annotated[Until, typer.Option("--until", help="The layer to stop behind.")] = Until.SLOTS,
    slot_sharing: Annotated[
        SlotSharingStrategy,
        typer.Option("--slot-sharing", help="The strategy that decides which tasks share a slot."),
    ] = SlotSharingStrategy.LOCAL_INPUT_PREFERRED,
    network: Annotated[
        NetworkProfile, typer.Option("--network", help="Whose network defaults buffers are counted with.")
    ] = NetworkProfile.FLINK_2_3,
    slots_per_task_manager: Annotated[
        int,
        typer.Option("--slots-per-task-manager", metavar="N", help="taskmanager.numberOfTaskSlots."),
    ] = 1,
    task_manager_memory: Annotated[
        str,
        typer.Option(
            "--task-manager-memory", metavar="M", help="taskmanager.memory.process.size, such as 4g."
        ),
    ] = "1728m",
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Spark master; default local[*].")
    ] = None,
) -> None:
    """Plan every topology of INPUT and write the plans as a new version of STORE.

    Topologies that are wrong, or that Flink refuses, are kept in the version too: see penstock rejected.
    """
    settings = dict(_setting(item) for item in conf or [])
    layer = Layer(until)
    choices = Choices(
        slot_sharing, PROFILES[network], TaskManager(task_manager_memory, slots_per_task_manager)
    )
    console = Console(stderr=True)
    with progress(stages(layer) + 4) as report:
        report("start Spark")
        spark = get_session(master=master, conf=settings, app_name="penstock plan")
        report("read topologies")
        given = read_topologies(spark, inputs)
        planned = plan_tables(spark, given, layer, report, choices)
        report("write the version")
        options = {
            "until": layer.value,
            "slot_sharing": slot_sharing.value,
            "network": network.value,
            "slots_per_task_manager": str(slots_per_task_manager),
            "task_manager_memory": task_manager_memory,
        }
        number = write_plan(
            spark,
            out,
            planned.tables,
            planner_version=version("penstock"),
            options=options,
            rows=dict.fromkeys(planned.tables, planned.rows_read),
        )
    typer.echo(
        f"{out}: version {number} holds {planned.planned:,} planned and {planned.rejected:,} rejected of "
        f"{planned.inputs:,} topologies"
    )
    if planned.rejected:
        console.print(
            f"penstock rejected {out} says why topologies were rejected", style="dim", highlight=False
        )


def _setting(item: str) -> tuple[str, str]:
    key, separator, value = item.partition("=")
    if not separator or not key.strip():
        raise ConfigurationError(f"--conf {item!r}: found no KEY=VALUE", "e.g. --conf spark.driver.memory=8g")
    return key.strip(), value.strip()
