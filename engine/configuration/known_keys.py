"""Which keys Flink and Spark know, and what to say of those that nobody knows."""

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

SPARK = "spark."
_OPEN = (
    "containerized.master.env.",
    "containerized.taskmanager.env.",
    "env.java.opts",
    "events.reporter.",
    "flink.hadoop.",
    "flink.yarn.",
    "fs.",
    "gs.",
    "metrics.reporter.",
    "metrics.scope.",
    "oss.",
    "presto.s3.",
    "s3.",
    "s3a.",
    "security.delegation.token.provider.",
    "traces.reporter.",
)
"""Where keys of Flink begin that users or plugins name themselves."""
_OPEN_OF_SPARK = (
    "spark.databricks.",
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.hive.",
    "spark.kubernetes.",
    "spark.metrics.conf.",
    "spark.sql.catalog.",
    "spark.yarn.appMasterEnv.",
)
_ALMOST = 0.93
"""How alike an undeclared property and a declared one are if one is a misspelling of the other."""


@cache
def flink_keys() -> dict[str, str | None]:
    """Every key of Flink 2.3.0; for a deprecated one, the key that replaced it."""
    pairs = (line.split() for line in _lines("flink_keys.txt"))
    return {pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}


@cache
def spark_keys() -> frozenset[str]:
    """The properties that Spark declares; plugins have others."""
    return frozenset(_lines("spark_keys.txt"))


def is_known_to_flink(key: str) -> bool:
    """Whether Flink reads the key, an entry of a map under it, or keys that begin like it."""
    return key in flink_keys() or key.startswith(_OPEN) or any(one.fullmatch(key) for one in _patterns())


def misspelled_spark_key(key: str) -> str | None:
    """The declared property that this is a misspelling of; None if it is one, or is like none."""
    if key in spark_keys() or key.startswith(_OPEN_OF_SPARK):
        return None
    return next(iter(get_close_matches(key, spark_keys(), n=1, cutoff=_ALMOST)), None)


def closest_key(key: str, read: frozenset[str]) -> str | None:
    """The closest key that somebody knows; `read` are those that Penstock reads. None if none is close."""
    known = spark_keys() if key.startswith(SPARK) else {*flink_keys(), *read}
    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(key.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Keys with a name in them: `external-resource.<resource_name>.amount`, `kubernetes.secrets.<name>`."""
    with_names = (re.escape(key) for key in flink_keys() if "<" in key)
    return tuple(re.compile(re.sub(r"<\w+>", "[^.]+", re.sub(r"<\w+>$", ".+", key))) for key in with_names)


def _lines(name: str) -> list[str]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
