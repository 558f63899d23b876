"""Commands that read a store say what is wrong with it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from engine.store.store_errors import store_errors

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def reads_store(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`command`, whose argument `store` is a store, with errors of the libraries that read it as Penstock's.

    Frames are read when they are collected, which is anywhere in the command.
    """

    @wraps(command)
    def told(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with store_errors(str(kwargs["store"]), "reading"):
            return command(*args, **kwargs)

    return told
