"""A client of a session: a Spark session over Spark Connect, of this process.

Spark Connect's client sends a token without TLS only to a host that is called `localhost`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from penstock.engine.machine.environment_as_before import environment_as_before
from penstock.engine.output.redaction import redact_value
from penstock.engine.run.clusters.session_folder import Session
from penstock.engine.run.clusters.session_server import LOOPBACK, TOKEN_VARIABLE
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command

_VARIABLES = (TOKEN_VARIABLE, "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
NO_SETTINGS: Mapping[str, str] = {}
_RETRIES, _FIRST_PAUSE_MILLISECONDS = 4, 50


_clients: list[Any] = []
"""The clients of the blocks that this process is in, as a stack: the last one counts."""


def connected_session() -> Any:
    """The SparkSession of the session that this process is connected to; a new one if a script stopped it."""
    if _clients[-1].is_stopped:
        _clients[-1] = _client(os.environ["SPARK_REMOTE"])
    return _clients[-1]


@contextmanager
def connected_to(session: Session, conf: Mapping[str, str] = NO_SETTINGS) -> Iterator[Any]:
    """Inside the block, Spark is `session`, for PySpark's own `getOrCreate` too; gives the SparkSession.

    `conf` is set in it. What the client keeps on the server goes with the block. Raises ConfigurationError
    where the extra is not installed, and for a setting that is fixed in the session and different.
    """
    require_connect()
    remote = f"sc://localhost:{session.port}"
    with environment_as_before(*_VARIABLES):
        os.environ.update(zip(_VARIABLES, (session.token, remote, "1"), strict=True))
        _clients.append(_client(remote))
        try:
            _apply(_clients[-1], session, conf)
            yield _clients[-1]
        finally:
            with suppress(Exception):  # a server that has ended keeps nothing
                _clients.pop().stop()


def _client(remote: str) -> Any:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    class Loopback(DefaultChannelBuilder):
        """To the address that the server has bound, not to others that `localhost` may stand for: what
        listens there, of whichever user, would be told the token.
        """

        @property
        def endpoint(self) -> str:
            return f"{LOOPBACK}:{self._port}"

    # a proxy for the network has no business between two processes of this machine
    channel = Loopback(remote, [("grpc.enable_http_proxy", 0)])
    spark = SparkSession(channel, userId=str(os.getuid()))
    # Spark's own policy goes on for ten minutes; a server on this machine answers at once or has ended
    spark.client.set_retry_policies(
        [DefaultPolicy(max_retries=_RETRIES, initial_backoff=_FIRST_PAUSE_MILLISECONDS)]
    )
    SparkSession._set_default_and_active_session(spark)
    return spark


def _apply(spark: Any, session: Session, conf: Mapping[str, str]) -> None:
    """Set what can be set; raise ConfigurationError for what is fixed and different."""
    for key, value in conf.items():
        if key == "spark.master":
            continue
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        elif (current := spark.conf.get(key, None)) != value:
            raise ConfigurationError(
                f"{key}: session {session.name!r} has {redact_value(key, str(current))}, asked for "
                f"{redact_value(key, value)}; it cannot be changed any more",
                "give it to penstock session start",
            )


# Whether what Spark Connect needs is installed.


_MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")
"""Modules of the packages grpcio, grpcio-status, googleapis-common-protos and zstandard."""


def require_connect() -> None:
    """Raise ConfigurationError, naming what is missing, where the extra `session` is not installed."""
    missing = [name for name in _MODULES if not _is_there(name)]
    if missing:
        raise ConfigurationError(
            f"sessions need Spark Connect: the modules {', '.join(missing)} are not installed",
            install_command("session"),
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package above it
        return False
