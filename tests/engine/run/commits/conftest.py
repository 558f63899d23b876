"""A Delta store that refuses every transaction until it is told otherwise."""

import pytest

from penstock.operators.connectors import commit_delta


@pytest.fixture
def failing(monkeypatch):
    """Let every transaction fail until the fixture is told otherwise."""
    commit = commit_delta._commit

    def fail(*arguments):
        raise OSError("the store is away")

    monkeypatch.setattr(commit_delta, "_commit", fail)
    return lambda: monkeypatch.setattr(commit_delta, "_commit", commit)
