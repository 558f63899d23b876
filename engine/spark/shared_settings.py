"""Set Spark settings for as long as a block lasts, in several threads at once."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyspark.sql import SparkSession

from penstock.plans.frames.spark_schemas import unless_ended


@dataclass(slots=True)
class _OpenBlocks:
    blocks: int = 0
    settings: ExitStack = field(default_factory=ExitStack)


_OPEN: dict[tuple[str, frozenset[tuple[str, str]]], _OpenBlocks] = {}
_LOCK = Lock()


@contextmanager
def shared_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set `wanted` on `spark` until the last block open at the same time has ended.

    Then the settings from before the first block are restored; with scoped_settings, overlapping blocks would
    restore each other's settings. Blocks of a session that want the same keys must want the same values.
    """
    session = _name_of(spark), frozenset(wanted.items())
    with _LOCK:
        open_blocks = _OPEN.setdefault(session, _OpenBlocks())
        if not open_blocks.blocks:
            open_blocks.settings.enter_context(scoped_settings(spark, wanted))
        open_blocks.blocks += 1
    try:
        yield
    finally:
        with _LOCK:
            open_blocks.blocks -= 1
            if not open_blocks.blocks:
                del _OPEN[session]
                open_blocks.settings.close()


def _name_of(spark: SparkSession) -> str:
    """Return the identity of a session; several Python objects may represent one session."""
    java = getattr(spark, "_jsparkSession", None)
    return str(java.sessionUUID() if java is not None else spark.session_id)  # type: ignore[attr-defined]


# Spark settings for one block.


@contextmanager
def scoped_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set `wanted` on `spark` inside the block, and restore the caller's settings afterwards."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        with unless_ended(spark):
            for key, old in before.items():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)
