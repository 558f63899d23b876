"""Names of jobs. Source: pyflink.common.job_id."""


class JobID:
    """Id of a job: 32 hex digits."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._job_id == other._job_id

    def __hash__(self) -> int:
        return hash(self._job_id)

    def __str__(self) -> str:
        return self._job_id
