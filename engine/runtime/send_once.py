"""Sends a file to Spark's workers once in an application; Spark would warn each further time."""

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

_sent: dict[str, set[str]] = {}


def send_once(context: SparkContext, send: Callable[..., None], path: str, *arguments: Any) -> None:
    """Call `send(path, *arguments)`, unless this Spark application has sent the path before."""
    sent = _sent.setdefault(context.applicationId, set())
    if path not in sent:
        send(path, *arguments)
        sent.add(path)
