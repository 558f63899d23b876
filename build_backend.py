"""The build backend: hatchling, and Flink's jars where a wheel is built, for the agent of `penstock capture`.

An installation in place needs neither them nor a JDK: its agent is compiled when it is first asked for.
"""

from collections.abc import Mapping
from typing import Any

from hatchling import build
from hatchling.build import *  # noqa: F403


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """What hatchling asks for, and Flink's jars."""
    return [*build.get_requires_for_build_wheel(config_settings), "apache-flink-libraries==2.3.0"]
