"""How the reference planner says that Flink refuses a topology."""


class FlinkRefusalError(Exception):
    """The stage, Flink's exception class and its message ("null" where Flink gives none)."""

    def __init__(self, stage: str, error: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.error = error
        self.message = message
