"""What a session is to be: a master, slots and memory as Spark settings.

Slots become TaskManagers, which are executors; with a local master there is one, the driver itself.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.engine.spark.spark_conf import spark_conf_dir_in_use, spark_settings
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_values import parse_memory_size

EXECUTOR_CORES = "spark.executor.cores"


@dataclass(frozen=True)
class SessionRequest:
    """A session that is to be started; `conf`: all Spark settings that it gets beside the files'."""

    name: str
    master: str
    slots: int
    slots_per_task_manager: int
    task_manager_memory: str
    conf: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """The request as the server reads it."""
        return {**asdict(self), "conf": dict(self.conf)}


def session_request(
    name: str,
    *,
    master: str | None,
    slots: int,
    slots_per_task_manager: int | None,
    task_manager_memory: str | None,
    conf: Mapping[str, str],
) -> SessionRequest:
    """The request for `slots` slots, in TaskManagers of `slots_per_task_manager` (None: 1) on a cluster.

    `conf` (Spark's settings) wins over what follows from slots and memory. Raises ConfigurationError for
    numbers that do not go together, and for a local master that says another number of cores.
    """
    asked = master or conf.get("spark.master") or spark_settings(spark_conf_dir_in_use()).get("spark.master")
    memory = task_manager_memory
    if asked is None or asked.startswith("local"):
        if asked not in (None, "local", "local[*]", f"local[{slots}]"):
            raise ConfigurationError(
                f"--slots {slots} and --master {asked} do not go together",
                f"leave out one, or say local[{slots}]",
            )
        own = {} if memory is None else {"spark.driver.memory": _spark_memory(memory)}
        return SessionRequest(
            name, f"local[{slots}]", slots, slots, memory or "", {**own, **_without_master(conf)}
        )
    each = slots_per_task_manager or 1
    if slots % each:
        raise ConfigurationError(
            f"--slots {slots} is no multiple of taskmanager.numberOfTaskSlots {each}",
            f"ask for {slots + each - slots % each} slots",
        )
    own = executors(slots, each, memory)
    return SessionRequest(name, asked, slots, each, memory or "", {**own, **_without_master(conf)})


def executors(slots: int, each: int, memory: str | None) -> dict[str, str]:
    """Spark settings for `slots` slots in TaskManagers of `each`."""
    own = {
        "spark.cores.max": str(slots),
        EXECUTOR_CORES: str(each),
        "spark.executor.instances": str(slots // each),
    }
    return own if memory is None else {**own, "spark.executor.memory": _spark_memory(memory)}


def _without_master(conf: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in conf.items() if key != "spark.master"}


def _spark_memory(text: str) -> str:
    """Converts a size from Flink's notation to Spark's. Raises ConfigurationError."""
    try:
        return f"{max(1, parse_memory_size(text) // 2**20)}m"
    except ValueError as error:
        raise ConfigurationError(f"--task-manager-memory {text}: {error}", "as in 2g or 1728m") from None
