"""`penstock plan`: topologies into a store of plans."""

from enum import StrEnum
from typing import Annotated

import typer

from engine.output.people import Styled, say, say_beside_output
from engine.output.progress import progress
from engine.output.redaction import redact_value, remember_secrets
from engine.planning.choose_planner import Planner, choose_planner, on_spark_instead
from engine.planning.plan_into_store import Stored, plan_into_store_by_columns, plan_into_store_on_spark
from engine.store.require_target import require_target
from plans.choices import Choices
from plans.columnar.plan_columnar import stages as columnar_stages
from plans.errors import ConfigurationError, NotEnoughMemoryError, RefusedTopologiesError
from plans.resources.network_options import PROFILES
from plans.resources.task_manager import TaskManager
from plans.topology.flink_values import parse_memory_size
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


def _planner(word: str) -> Planner:
    """The planner of that name; joins were called spark before."""
    try:
        return Planner(word)
    except ValueError:
        raise typer.BadParameter(
            f"{word!r} is not one of {', '.join(map(repr, map(str, Planner)))}."
        ) from None


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
    planner: Annotated[
        Planner,
        typer.Option(
            "--planner",
            parser=_planner,
            metavar="|".join(Planner),
            help="Who plans; the plans are the same. columnar: by arrays; in this process where the input is "
            "local and fits in memory, else of whole topologies in Spark's workers. joins: by joins over "
            "DataFrames, for topologies that no worker's memory holds. auto: columnar, but joins where a "
            "topology is too large. flink: columnar, and the real Flink plans the same; what it refuses or "
            "plans in another way is rejected. Needs a JDK and pip install 'penstock\\[flink]'.",
        ),
    ] = Planner.AUTO,
    max_line_size: Annotated[
        str,
        typer.Option(
            "--max-line-size", metavar="SIZE", help="Lines of files that are longer are rejected, e.g. 2g."
        ),
    ] = "256m",
    strict: Annotated[
        bool, typer.Option("--strict", help="End with exit code 7 if any topology is refused.")
    ] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Spark master; default local[*].")
    ] = None,
) -> None:
    """Plan every topology of INPUT and write the plans as a new version of STORE.

    Topologies that are wrong, or that Flink refuses, are kept in the version too: see penstock rejected. If
    all are refused, or any under --strict, the exit code is 7; the version is written all the same.
    """
    settings = dict(_setting(item) for item in conf or [])
    remember_secrets(settings)
    require_target(out)
    layer = Layer(until)
    choices = Choices(
        slot_sharing, PROFILES[network], TaskManager(task_manager_memory, slots_per_task_manager)
    )
    options = {
        "until": layer.value,
        "slot_sharing": slot_sharing.value,
        "network": network.value,
        "slots_per_task_manager": str(slots_per_task_manager),
        "task_manager_memory": task_manager_memory,
    }
    longest = _bytes(max_line_size)
    chosen = choose_planner(planner, inputs, out, wants_spark=bool(settings or master))
    stored = None
    if not chosen.on_spark:
        extra = 4 if chosen.planner is Planner.FLINK else 2
        try:
            with progress(columnar_stages(layer) + extra) as report:
                stored = plan_into_store_by_columns(
                    inputs, out, layer, choices, options, report, choice=chosen, max_line_bytes=longest
                )
        except NotEnoughMemoryError as error:
            chosen = on_spark_instead(planner, error)
    if stored is None:
        from plans.joins.passes import stages

        with progress(stages(layer) + 4) as report:
            stored = plan_into_store_on_spark(
                inputs,
                out,
                layer,
                choices,
                options,
                report,
                choice=chosen,
                master=master,
                conf=settings,
                max_line_bytes=longest,
            )
    say(
        f"{out}: version {stored.version} holds {stored.planned:,} planned and {stored.rejected:,} rejected "
        f"of {stored.inputs:,} topologies (planner {stored.planner}: {stored.why})"
    )
    _require_planned(stored, out, strict)
    if stored.rejected:
        say_beside_output(Styled(f"penstock rejected {out} says why topologies were rejected", "dim"))


def _bytes(size: str) -> int:
    try:
        found = parse_memory_size(size)
    except ValueError as error:
        raise ConfigurationError(f"--max-line-size {size!r}: {error}", "a size such as 64m or 2g") from None
    if found < 1:
        raise ConfigurationError(f"--max-line-size {size!r}: allowed 1 byte or more")
    return found


def _require_planned(stored: Stored, out: str, strict: bool) -> None:
    """RefusedTopologiesError if nothing was planned, or anything refused under --strict."""
    if not stored.rejected or (stored.planned and not strict):
        return
    refused = f"{stored.rejected:,} of {stored.inputs:,} topologies were refused"
    raise RefusedTopologiesError(
        f"{refused}, and --strict allows none" if stored.planned else f"nothing was planned: {refused}",
        f"penstock rejected {out} says why; version {stored.version} is written all the same",
    )


def _setting(item: str) -> tuple[str, str]:
    key, separator, value = item.partition("=")
    if not separator or not key.strip():
        raise ConfigurationError(
            f"--conf {redact_value(item, item)!r}: found no KEY=VALUE", "e.g. --conf spark.driver.memory=8g"
        )
    return key.strip(), value.strip()
