"""Python objects as bytes that another process can read."""

import functools
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

from penstock.operators.common.typeinfo import PickledBytesTypeInfo, TypeInformation


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError("the other process has another main module")
        return NotImplemented


def dumps(value: Any) -> bytes:
    """A pickle of `value`, for `pickle.loads`.

    What a script defines in its main module is written out with it, by cloudpickle; everything else by
    pickle, which is several times faster. Raises what cloudpickle does for what cannot be pickled.
    """
    stream = BytesIO()
    try:
        _Pickler(stream, protocol=5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        from pyspark import cloudpickle

        return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return, no-untyped-call]
    return stream.getvalue()


# Functions of a job, for Spark's workers.


def dumps_for_workers(value: Any) -> bytes:
    """As cloudpickle.dumps, but PicklingError for a session of Spark Connect, and for what holds one.

    Its pickle would be made, and fail in the workers, which have no session.
    """
    stream = BytesIO()
    _pickler_for_workers()(stream).dump(value)
    return stream.getvalue()


@cache
def _pickler_for_workers() -> Any:
    from pyspark import cloudpickle

    base: Any = cloudpickle.Pickler

    class PicklerForWorkers(base):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            kind = type(obj)
            if kind.__name__ == "SparkSession" and kind.__module__.startswith("pyspark.sql.connect."):
                raise pickle.PicklingError("Spark's workers have no session")
            return super().reducer_override(obj)

    return PicklerForWorkers


class UnloadableFunctionError(Exception):
    """A function cannot be unpickled in a worker; `operator` says whose it is."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator)
        self.operator = operator


def load_function(pickled: bytes, operator: str) -> Any:
    """What `pickled` holds. Raises UnloadableFunctionError from what loading it raises."""
    try:
        return pickle.loads(pickled)
    except BaseException as error:
        raise UnloadableFunctionError(operator) from error


# Finds the part of a function that keeps it from being sent to Spark's workers.


_MOST_PARTS = 1000
_DEEPEST = 12


def describe_unpicklable(function: Any, what: str, error: BaseException) -> str:
    """Why `function`, whose pickling raised `error`, cannot be pickled, and what to do about it.

    `what` says whose function it is, as in "map's function". The culprit is searched for in captured
    variables, globals, defaults, attributes and elements; each candidate is pickled to test it, which takes
    time if a lot is captured.
    """
    path, culprit = _culprit(function, dumps=dumps_for_workers, depth=_DEEPEST)
    where = "" if not path else f": {', '.join(path)}"
    kind = type(culprit)
    kind_name = (
        kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
    return (
        f"{what}, {_name(function)}, cannot be sent to Spark's workers{where}"
        f"{' is' if path else ' it is'} of type {kind_name}, which cannot be pickled "
        f"({type(error).__name__}: {str(error)[:300]})\n"
        f"  hint: {_HINT_OF_SPARK if _is_of_spark(culprit) else _HINT}"
    )


_HINT = "make it where it is used, in the function object's open(), or import it inside the function"
_HINT_OF_SPARK = (
    "functions run in Spark's workers, which have no session and no DataFrames: collect the rows that a "
    "function needs before, or make a stream of the DataFrame and connect both streams"
)


def _culprit(value: Any, dumps: Callable[[Any], object], depth: int) -> tuple[list[str], Any]:
    """The innermost part of `value` that cannot be pickled, and the way there."""
    path: list[str] = []
    seen = {id(value)}
    while depth and not _is_of_spark(value):
        depth -= 1
        for name, part in islice(_parts(value), _MOST_PARTS):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if not _can_be_pickled(part, dumps):
                path.append(name)
                value = part
                break
        else:
            break
    return path, value


def _is_of_spark(value: Any) -> bool:
    return type(value).__module__.startswith("pyspark.")


def _can_be_pickled(value: Any, dumps: Callable[[Any], object]) -> bool:
    try:
        dumps(value)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, MethodType):
        yield f"the object of its method {value.__name__!r}", value.__self__
    elif isinstance(value, functools.partial):
        yield "the function of a partial", value.func
        yield from ((f"argument {place}", part) for place, part in enumerate(value.args))
        yield from ((f"argument {name!r}", part) for name, part in value.keywords.items())
    elif isinstance(value, dict):
        yield from ((f"item {key!r:.60}", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"element {place}", part) for place, part in enumerate(value))
    else:
        yield from ((f"attribute {name!r}", part) for name, part in getattr(value, "__dict__", {}).items())


def _parts_of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"captured variable {name!r}", cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"global variable {name!r}", function.__globals__[name]
    for place, default in enumerate(function.__defaults__ or ()):
        yield f"default value {place}", default
    yield from (
        (f"default of {name!r}", default) for name, default in (function.__kwdefaults__ or {}).items()
    )


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _name(function: Any) -> str:
    inner = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(inner, FunctionType):
        code = inner.__code__
        return f"{inner.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
    return f"an object of class {type(function).__qualname__}"


# Tells which records travel as pickles.


def is_pickled(type_info: TypeInformation | None) -> bool:
    """Whether records of this type travel as pickles."""
    return type_info is None or isinstance(type_info, PickledBytesTypeInfo)
