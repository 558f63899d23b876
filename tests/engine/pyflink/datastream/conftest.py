"""PyFlink's names for a test, as `penstock run` has them."""

from collections.abc import Iterator

import pytest

from penstock.engine.pyflink_names import install, uninstall


@pytest.fixture
def hook() -> Iterator[None]:
    install()
    yield
    uninstall()
