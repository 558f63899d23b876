"""What an author reads of an error in their functions."""

import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.user_errors import FunctionError, author_first


def fails() -> Iterator[pa.RecordBatch]:
    yield from ()
    raise ValueError("no such colour")


def run() -> Iterator[pa.RecordBatch]:
    """Call `fails` by way of a frame of Penstock's."""
    try:
        yield from author_first(fails())
    except ValueError as error:
        raise UserFunctionError(job="j", operator="o", subtask=0, record="7", cause=repr(error)) from error


def test_a_traceback_has_the_frames_of_the_author_only():
    with pytest.raises(FunctionError, match="no such colour") as raised:
        list(author_first(run()))
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[1:] == ["_raising", "run", "fails"]
