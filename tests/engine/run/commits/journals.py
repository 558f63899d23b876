"""The journals that tests look at."""

from penstock.engine.run.commits.journal import JournalRun, parts_in, runs_of


def runs_in(folder: str) -> list[JournalRun]:
    """The sound runs of this user with a record in `folder`, by id."""
    parts, _ = parts_in(folder)
    return list(runs_of(parts)[0])
