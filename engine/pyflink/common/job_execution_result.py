"""The result of a finished job. Source: pyflink.common.job_execution_result."""

from collections.abc import Mapping
from typing import Any

from penstock.engine.pyflink.common.job_id import JobID


class JobExecutionResult:
    """Id of the job, how many milliseconds it took, and its metrics, by name, as accumulators."""

    def __init__(self, job_id: str, net_runtime: int, accumulators: Mapping[str, Any] | None = None) -> None:
        self._job_id = JobID(job_id)
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Milliseconds that the job ran."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Value of an accumulator; None if there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Values of all accumulators by name."""
        return dict(self._accumulators)

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime} ms",
        ]
        if self._accumulators:
            lines += ["Accumulator Results: ", *map(_accumulator_line, self._accumulators.items()), ""]
        return "\n".join(lines) + "\n"


def _accumulator_line(entry: tuple[str, Any]) -> str:
    name, value = entry
    text = f" [{len(value)} elements]" if isinstance(value, (list, tuple, set)) else f": {value}"
    return f"- {name} ({type(value).__name__}){text}"
