"""The store that a library call writes to, looked at before it is written."""

import warnings


def require_store(store: str) -> None:
    """As engine.store.require_target; warns of what was repaired."""
    from penstock.engine.store.require_target import require_target

    for repaired in require_target(store):
        warnings.warn(repaired, stacklevel=3)
