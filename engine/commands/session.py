"""The commands `penstock session`, for long-running Spark applications that clients share."""

import time
from contextlib import suppress
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.key_values import (
    Conf,
    ConfigDir,
    Define,
    PropertiesFile,
    given_configuration,
    given_settings,
)
from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.run.clusters.session_folder import (
    DEFAULT_NAME,
    Session,
    latest_session,
    list_sessions,
    live_session,
)
from penstock.engine.run.clusters.session_server import connected_to
from penstock.engine.run.clusters.slot_request import NoResourceAvailableError
from penstock.plans.errors import ConfigurationError

# A session runs a first job when it starts, so that no client's job is the first. The job makes Spark load
# its classes, and starts the process that Python workers are forked from: half of the time of a first job. It
# also shows that the session answers a client with its token.


_SECONDS_FOR_A_TASK_MANAGER = 30


def _warm_session(session: Session) -> None:
    """Run a small job in `session`, on as many slots as have registered so far. Raises the session's errors.

    A cluster without a TaskManager within some seconds may get one later: that is not an error.
    """
    from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.engine.run.runtime.run_context import (
        EnvironmentSettings,
        RunContext,
        SessionSettings,
        use_context,
    )
    from penstock.operators.common.typeinfo import Types

    settings = EnvironmentSettings(
        parallelism=max(1, session.registered()["slots"]),
        config={SLOT_REQUEST_TIMEOUT.key: f"{_SECONDS_FOR_A_TASK_MANAGER} s"},
    )
    with (
        suppress(NoResourceAvailableError),
        connected_to(session),
        use_context(RunContext(settings=settings, spark=SessionSettings(session=session))),
    ):
        env = StreamExecutionEnvironment.get_execution_environment()
        pairs = env.from_collection(list(range(100)), Types.LONG()).rebalance().map(_pair)
        first = pairs.key_by(lambda pair: pair[0]).reduce(lambda first, _: first)
        with first.execute_and_collect("warm up") as records:
            for _ in records:
                pass


def _pair(number: int) -> tuple[int, int]:
    return number % 10, number


session_command = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Start, list and stop sessions: long-running Spark applications shared by jobs of several clients.",
)

Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The session's name.")]


@session_command.command("start", cls=PlainCommand)
def start(
    slots: Annotated[int, typer.Option("--slots", min=1, metavar="N", help="Slots shared by its jobs.")],
    task_manager_memory: Annotated[
        str | None,
        typer.Option(
            "--task-manager-memory", metavar="SIZE", help="Heap of each TaskManager's JVM, such as 2g."
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option("-m", "--master", metavar="URL", help="Spark master; default local[N].")
    ] = None,
    name: Name = DEFAULT_NAME,
    config_dir: ConfigDir = None,
    define: Define = None,
    conf: Conf = None,
    properties_file: PropertiesFile = None,
) -> None:
    """Start a session, and record it: `penstock run` uses it from now on, unless an option names another
    cluster.

    Examples:
        penstock session start --slots 2 --task-manager-memory 2g
    """
    from penstock.engine.run.clusters.start_session import session_request, start_session

    configuration = given_configuration(config_dir, define)
    cluster = configuration.cluster
    request = session_request(
        name,
        master=master,
        slots=slots,
        slots_per_task_manager=cluster.slots,
        task_manager_memory=task_manager_memory or cluster.process_size,
        conf={**configuration.spark, **given_settings(properties_file, conf)},
    )
    began = time.monotonic()
    session = start_session(request, _warm_session)
    print_beside_output(
        f"session {session.name!r} on {session.master} started in {time.monotonic() - began:.1f} s, with "
        f"{session.slots} slots; its log is {session.folder / 'log'}"
    )
    print_line(session.name)


@session_command.command("list", cls=PlainCommand)
def list_() -> None:
    """List sessions; * marks the recorded one, which commands use that name none.

    Examples:
        penstock session list
    """
    latest = latest_session()
    columns = (
        Column(""),
        Column("session"),
        Column("state"),
        Column("master"),
        Column("slots", justify="right"),
        Column("registered", justify="right"),
        Column("TaskManager memory"),
        Column("started"),
        Column("process", justify="right"),
    )
    print_table(columns, [_row(session, session == latest) for session in list_sessions()])


@session_command.command("stop", cls=PlainCommand)
def stop(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Default: the recorded session.")
    ] = None,
) -> None:
    """Stop a session, and its jobs.

    Examples:
        penstock session stop
    """
    from penstock.engine.run.clusters.session_folder import find_session
    from penstock.engine.run.clusters.start_session import stop_session

    session = latest_session() if name is None else find_session(name)
    if session is None:
        if name is not None:
            live_session(name)
        raise ConfigurationError("no session is recorded", "penstock session list lists all sessions")
    was_running = stop_session(session)
    state = "stopped" if was_running else "had ended already; its record is removed"
    print_beside_output(f"session {session.name!r} {state}")


def _row(session: Session, latest: bool) -> list[str]:
    states = {"alive": "running", "dead": "has ended", "unknown": "on another machine"}
    registered = session.registered()["slots"] if session.state == "alive" else 0
    return [
        "*" if latest else "",
        session.name,
        states[session.state],
        session.master,
        str(session.slots),
        str(registered),
        session.task_manager_memory or "default",
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(session.started_at / 1000)),
        session.owner["pid"],
    ]
