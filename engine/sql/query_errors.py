"""What DuckDB says of a query, as errors that a user can read, with the closest names."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.sql.mentions import mentions
from penstock.engine.store.manifest import PlanVersion
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError, PenstockError
from penstock.plans.tables import TABLES
from penstock.plans.tables.view_columns import view_columns

_TABLE = re.compile(r"Table with name (.+?) does not exist")
_COLUMN = re.compile(r'(?:[Rr]eferenced column|column named|[Cc]olumn) "(.+?)"')
_GUESS = re.compile(r'\nDid you mean ".*?"\?')
"""DuckDB looks through its own catalogue, too."""

_WRAPPED = "unnamed_relation_"
"""In the text that DuckDB runs, which is not the user's."""

_LISTED = "penstock sql STORE --tables lists tables and columns"


@contextmanager
def query_errors(query: str, version: PlanVersion | None = None) -> Iterator[None]:
    """Raise ConfigurationError for what is wrong with a query, NotEnoughMemoryError, or MachineError.

    `version`: the one whose tables the query reads, once it is known.
    """
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise NotEnoughMemoryError(
            f"the query does not fit in memory: {_first_line(error)}",
            "select fewer rows or columns, or free memory; sums and joins spill to TMPDIR, lists do not",
        ) from error
    except duckdb.Error as error:
        if refused := machine_error_in_text(error, "running the query"):
            raise refused from error
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            raise PenstockError(f"DuckDB failed: {_first_line(error)}", "please report it") from error
        said = str(error).strip()
        if _WRAPPED in said:
            said = said.partition("\n\nLINE ")[0]
        hint = None if version is None else _hint(said, query, version)
        raise ConfigurationError(_GUESS.sub("", said) if hint else said, hint) from error


def _hint(said: str, query: str, version: PlanVersion) -> str | None:
    if found := _TABLE.search(said):
        named = found[1].strip('"').lower()
        if named in TABLES:
            until = version.options.get("until")
            planned = f" was planned until {until} and" if until else ""
            return f"version {version.version}{planned} has no table {named}; {_LISTED}"
        close = get_close_matches(named, version.tables, n=3, cutoff=0.5)
        return f"tables with close names: {', '.join(close)}" if close else _LISTED
    if found := _COLUMN.search(said):
        named = found[1].lower()
        mentioned = [table for table in version.tables if mentions(query, table)]
        columns = {table: view_columns(table) for table in mentioned}
        renamed = [
            f"{table}.{known[named]}" for table, known in columns.items() if known.get(named, named) != named
        ]
        if renamed:
            return f"in SQL it is {', '.join(renamed)}; {_LISTED}"
        every = sorted({name for known in columns.values() for name in known.values()})
        close = get_close_matches(named, every, n=3, cutoff=0.6)
        places = [f"{t}.{c}" for c in close for t, known in columns.items() if c in known.values()]
        return f"columns with close names: {', '.join(places[:6])}" if places else _LISTED
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
