"""What a job that fails says of its failure."""

import pytest

from penstock.operators.chain.errors import UserFunctionError
from tests.engine.run.runtime.run_in_process import collected


def failure_of(stream):
    with pytest.raises(UserFunctionError) as raised:
        collected(stream)
    return raised.value
