"""Errors of a running job; they travel from a Spark worker to the driver as data, not as pickles."""


class UserFunctionError(Exception):
    """An operator failed: mostly because a function of the job's author raised.

    `during` is what failed where it was not the operator's function on a record: its key selector, its open.
    `record` is what was being handled, as text; empty where nothing was. `cause` is the exception as text.
    """

    def __init__(
        self,
        *,
        job: str,
        operator: str,
        subtask: int,
        record: str,
        cause: str,
        during: str = "",
        hint: str = "",
    ) -> None:
        self.job, self.operator, self.subtask = job, operator, subtask
        self.record, self.cause, self.during, self.hint = record, cause, during, hint
        super().__init__(
            f"job {job!r}, operator {operator!r}, subtask {subtask}: {during + ': ' if during else ''}{cause}"
            + (f"\nwhile it handled the record {record}" if record else "")
            + (f"\nhint: {hint}" if hint else "")
        )


class EnoughResults(BaseException):
    """No further results are wanted: ends the calls of a chain, from the operator that puts out to the head.

    A BaseException, so that no function of the job's author that catches Exception keeps it.
    """
