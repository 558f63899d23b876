"""What goes wrong while a job runs; it travels from a Spark worker to the driver as data, not as a pickle."""


class UserFunctionError(Exception):
    """A function of the job's author raised."""

    def __init__(self, *, job: str, operator: str, subtask: int, record: str, cause: str) -> None:
        self.job, self.operator, self.subtask, self.record, self.cause = job, operator, subtask, record, cause
        super().__init__(
            f"job {job!r}, operator {operator!r}, subtask {subtask}: {cause}"
            + (f"\nwhile it handled the record {record}" if record else "")
        )
