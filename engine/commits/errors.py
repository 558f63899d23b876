"""What can go wrong with the commit of a run."""

from plans.errors import PenstockError


class CommitError(PenstockError):
    """The sinks of a run are not, or not all, committed; the message says which, and what to do."""


class NeedsItsJobError(Exception):
    """A sink is of a class of the user's, which only the job itself has."""
