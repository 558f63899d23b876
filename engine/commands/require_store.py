"""The store that a command writes to, looked at before the work starts."""

from contextlib import AbstractContextManager

from penstock.engine.output.say import say_beside_output


def require_store(store: str) -> None:
    """As engine.store.require_target; says what was repaired."""
    from penstock.engine.store.require_target import require_target

    for repaired in require_target(store):
        say_beside_output(repaired)


def tables_read_once() -> AbstractContextManager[None]:
    """As engine.store.delta_rs_table.shared_tables."""
    from penstock.engine.store.delta_rs_table import shared_tables

    return shared_tables()
