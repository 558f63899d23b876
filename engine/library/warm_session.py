"""The first job of a session, run when it starts, so that no client's job is the first.

It makes Spark load its classes, and starts the process that Python workers are forked from: half of the time
of a first job. It also shows that the session answers a client that has its token.
"""

from contextlib import suppress

from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.run.clusters.session_folder import Session
from penstock.engine.run.clusters.session_server import connected_to
from penstock.engine.run.clusters.slot_request import NoResourceAvailableError

_SECONDS_FOR_A_TASK_MANAGER = 30


def warm_session(session: Session) -> None:
    """Run a small job in `session`, on as many slots as have registered by now. Raises what is wrong with it.

    A cluster that has no TaskManager for it within some seconds may have some later: that is not wrong.
    """
    from penstock.engine.pyflink.datastream.environment_options import EnvironmentSettings, use_settings
    from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.engine.run.runtime.run_environment import use_session_settings
    from penstock.operators.common.typeinfo import Types

    settings = EnvironmentSettings(
        parallelism=max(1, session.registered()["slots"]),
        config={SLOT_REQUEST_TIMEOUT.key: f"{_SECONDS_FOR_A_TASK_MANAGER} s"},
    )
    with (
        suppress(NoResourceAvailableError),
        connected_to(session),
        use_session_settings(None, {}, session),
        use_settings(settings),
    ):
        env = StreamExecutionEnvironment.get_execution_environment()
        pairs = env.from_collection(list(range(100)), Types.LONG()).rebalance().map(_pair)
        first = pairs.key_by(lambda pair: pair[0]).reduce(lambda first, _: first)
        with first.execute_and_collect("warm up") as records:
            for _ in records:
                pass


def _pair(number: int) -> tuple[int, int]:
    return number % 10, number
