"""Spark settings that several threads want at once."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyspark.sql import SparkSession

from penstock.plans.frames.spark_schemas import unless_ended


@dataclass(slots=True)
class _Held:
    blocks: int = 0
    settings: ExitStack = field(default_factory=ExitStack)


_HELD: dict[tuple[str, frozenset[tuple[str, str]]], _Held] = {}
_LOCK = Lock()


@contextmanager
def shared_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets `wanted` on `spark` until the last block that is open at the same time has ended.

    Then what was there before the first of them is put back; with scoped_settings, blocks that overlap would
    put back each other's settings. Blocks of a session that want the same keys must want the same values.
    """
    session = _name_of(spark), frozenset(wanted.items())
    with _LOCK:
        held = _HELD.setdefault(session, _Held())
        if not held.blocks:
            held.settings.enter_context(scoped_settings(spark, wanted))
        held.blocks += 1
    try:
        yield
    finally:
        with _LOCK:
            held.blocks -= 1
            if not held.blocks:
                del _HELD[session]
                held.settings.close()


def _name_of(spark: SparkSession) -> str:
    """The identity of a session; several Python objects may stand for one."""
    java = getattr(spark, "_jsparkSession", None)
    return str(java.sessionUUID() if java is not None else spark.session_id)  # type: ignore[attr-defined]


# Spark settings for as long as a block lasts.


@contextmanager
def scoped_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets `wanted` on `spark` and puts back what was there: a caller's session may differ."""
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
