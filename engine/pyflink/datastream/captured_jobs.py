"""The results that a script gets of a job that is only planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Self

from penstock.engine.pyflink.datastream.environment_settings import JobCaptured, current_settings
from penstock.engine.run.runtime.job import Job


def is_captured(job: Job) -> bool:
    """Whether `job` is kept only to be planned. Raises JobCaptured where the script ends with it."""
    settings = current_settings()
    if settings.captured is None:
        return False
    settings.captured.append(job)
    if not settings.goes_on:
        raise JobCaptured
    return True


class NoRecords:
    """The records of a job that is not run: none."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> NoReturn:
        raise StopIteration

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class PlannedJob:
    """A job that is not run, as a JobClient sees it: it has finished."""

    job_id: str = "0" * 32
    milliseconds: int = 0

    def status(self) -> str:
        """FINISHED."""
        return "FINISHED"

    def cancel(self) -> None:
        """Nothing runs."""

    def result(self) -> PlannedJob:
        """Itself."""
        return self
