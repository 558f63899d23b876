"""Sends a file to Spark's workers once in an application; Spark would warn each further time."""

from collections.abc import Callable
from typing import Any

_sent: dict[str, set[str]] = {}


def send_once(application: str, send: Callable[..., None], path: str, *arguments: Any) -> None:
    """Call `send(path, *arguments)`, unless the path has been sent to this Spark application before."""
    sent = _sent.setdefault(application, set())
    if path not in sent:
        send(path, *arguments)
        sent.add(path)
