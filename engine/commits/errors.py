"""What can go wrong with the commit of a run."""

from plans.errors import PenstockError


class CommitError(PenstockError):
    """The sinks of a run are not, or not all, committed; the message says which, and what to do."""


class NeedsItsJobError(Exception):
    """A sink's class is the user's own, so only the job itself can finish its commit."""
