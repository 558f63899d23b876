"""Functions of a job's author: objects with open and close, or plain callables."""

from collections.abc import Callable
from typing import Any, TypeGuard

from penstock.operators.chain.operator import Operator, OperatorContext
from penstock.operators.functions.functions import Function
from penstock.operators.functions.runtime_context import RuntimeContext


class FunctionOperator(Operator):
    """An operator around one function, which it opens and closes if the function has that.

    Source: org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def open(self) -> None:
        """Open the function with its RuntimeContext."""
        open_function(self.function, self.context)

    def close(self) -> None:
        close_function(self.function)


def open_function(function: Any, context: OperatorContext) -> None:
    """Call `function.open(RuntimeContext)` if it is a function object with that method."""
    if has_method(function, "open"):
        function.open(RuntimeContext(context))


def close_function(function: Any) -> None:
    """Call `function.close()` if it is a function object with that method."""
    if has_method(function, "close"):
        function.close()


def method(function: Any, name: str) -> Callable[..., Any]:
    """`function.name` for a function object, `function` itself for a plain callable."""
    if has_method(function, name):
        bound: Callable[..., Any] = getattr(function, name)
        return bound
    if not callable(function):
        raise TypeError(f"{type(function).__name__} is neither callable nor has it a method {name!r}")
    plain: Callable[..., Any] = function
    return plain


def has_method(function: Any, name: str) -> TypeGuard[Any]:
    """Whether `function` is a function object with that method.

    Other callables are called even if they have such an attribute: pathlib.Path has `open`, pandas.Series
    `map`.
    """
    plain = callable(function) and not isinstance(function, Function)
    return not plain and hasattr(function, name)
