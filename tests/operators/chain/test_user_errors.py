"""What an author reads of an error in their functions."""

import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.operators.chain.errors import (
    FunctionError,
    UserFunctionError,
    author_first,
    describe_error,
)


def fails() -> Iterator[pa.RecordBatch]:
    yield from ()
    raise ValueError("no such colour")


def never_sent() -> Iterator[BaseException]:
    """Exceptions whose traceback Spark's worker could not encode, or that are too long to be read."""
    noted = ValueError("noted")
    noted.add_note("a\ud800")
    caused = ValueError("outer")
    caused.__cause__ = KeyError("\udfff")
    yield from (
        ValueError("a\ud800b"),
        BaseException("\udcff"),
        SystemExit("\ud800"),
        ExceptionGroup("group\ud800", [ValueError("\ud800"), TypeError("inner")]),
        noted,
        caused,
        ValueError("x" * 10_000_000),
        ValueError(b"\xff", 3, "\ud800"),
    )


@pytest.mark.parametrize("error", list(never_sent()), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("by", ["an operator", "something else"])
def test_what_spark_could_not_send_is_escaped(error: BaseException, by: str):
    def fails_so() -> Iterator[pa.RecordBatch]:
        yield from ()
        try:
            raise error
        except BaseException as raised:
            if by == "something else":
                raise
            cause = describe_error(raised)
            raise UserFunctionError(job="j", operator="Digest", subtask=0, record="", cause=cause) from raised

    with pytest.raises(BaseException) as raised:  # noqa: PT011 what is raised is what is looked at
        list(author_first(fails_so()))
    text = "".join(traceback.format_exception(raised.value))
    assert len(text.encode()) < 20_000
    assert type(error).__name__ in text
    assert "Digest" in text or by == "something else"
    assert "fails_so" in text


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
