"""Pickle Python objects as bytes that another process can read."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from io import BytesIO
from itertools import islice
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from penstock.operators.common.typeinfo import PickledBytesTypeInfo, TypeInformation


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError("the other process has another main module")
        return NotImplemented


def dumps(value: Any) -> bytes:
    """Return a pickle of `value`, for `pickle.loads`.

    Definitions of a script's main module are included, by cloudpickle; all else is pickled by pickle, which
    is several times faster. Raises as cloudpickle does for objects that cannot be pickled.
    """
    stream = BytesIO()
    try:
        _Pickler(stream, protocol=5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        from pyspark import cloudpickle

        return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return, no-untyped-call]
    return stream.getvalue()


# Functions of a job, for Spark's workers


def dumps_for_workers(value: Any) -> bytes:
    """Pickle as cloudpickle.dumps does, but raise PicklingError for a session of Spark Connect.

    The same applies to objects that hold a session. Its pickle would be made, and fail in the workers, which
    have no session.
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
    """A function cannot be unpickled in a worker; `operator` names its operator."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator)
        self.operator = operator


def load_function(pickled: bytes, operator: str) -> Any:
    """Unpickle a function. Raises UnloadableFunctionError from any error."""
    try:
        return pickle.loads(pickled)
    except BaseException as error:
        raise UnloadableFunctionError(operator) from error


# Search for the part of a function that prevents sending it to Spark's workers


_MOST_PARTS = 1000
_DEEPEST = 12


def describe_unpicklable(function: Any, owner: str, error: BaseException) -> str:
    """Describe why `function`, whose pickling raised `error`, cannot be pickled, with a hint.

    `owner` names the function's owner, as in "map's function". The part is searched for in captured
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
        f"{owner}, {_name(function)}, cannot be sent to Spark's workers{where}"
        f"{' is' if path else ' it is'} of type {kind_name}, which cannot be pickled "
        f"({type(error).__name__}: {str(error)[:300]})\n"
        f"  hint: {_HINT_OF_SPARK if _is_of_spark(culprit) else _HINT}"
    )


_HINT = "create it in the function object's open(), or import it inside the function"
_HINT_OF_SPARK = (
    "functions run in Spark's workers, which have no session and no DataFrames: collect the rows that a "
    "function needs beforehand, or make a stream of the DataFrame and connect both streams"
)


def _culprit(value: Any, dumps: Callable[[Any], object], depth: int) -> tuple[list[str], Any]:
    """Return the innermost part of `value` that cannot be pickled, and the path to it."""
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


# Records that travel as pickles


def is_pickled(type_info: TypeInformation | None) -> bool:
    """Whether records of this type travel as pickles."""
    return type_info is None or isinstance(type_info, PickledBytesTypeInfo)


# A digest of a value that is equal in another process if the value is equal
#
# Pickles are not: they differ in the order of sets, in names that cloudpickle invents for classes of a
# script, and in the constants that are one object, which differ between a compiled module and its bytecode
# file.


_PLAIN = (type(None), bool, int, float, complex, str, type(Ellipsis), type(NotImplemented), range)
_MOST_NESTED = 200
_MOST_OBJECTS = 5_000_000


class UnidentifiableError(Exception):
    """A value cannot be compared with the value of another process."""


def identify_value(value: Any) -> str:
    """Return the SHA-256 over the content of `value`, in hex digits.

    The content is: plain values, elements of containers, the state of objects (as pickle sees it), and of the
    user's functions and classes their code and the values to which they refer. Definitions of an installed
    package are represented by their names. Raises UnidentifiableError if an object's state is not available.
    """
    try:
        return _DigestWalk([0]).digest(value).hex()
    except RecursionError:
        raise UnidentifiableError("a value is nested too deeply") from None


def is_installed(file: str | None) -> bool:
    """Whether a module's file belongs to the standard library or an installed package."""
    if file is None:
        return True
    return any(file.startswith(folder) for folder in _installed_folders()) or "-packages/" in file


@cache
def _installed_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    # Penstock's own modules, whose place differs in a checkout
    checkout = __file__.removesuffix("operators/common/pickles.py")
    own_folders = (f"{checkout}{name}/" for name in ("operators", "plans", "engine", "penstock"))
    return (*(f"{sysconfig.get_path(name)}/" for name in names), *own_folders)


class _DigestWalk:
    """One walk over a value; an object that occurs again is identified by its first position."""

    def __init__(self, walked: list[int], depth: int = 0) -> None:
        self._met: dict[int, tuple[int, Any]] = {}
        self._walked, self._depth = walked, depth

    def digest(self, value: Any) -> bytes:
        if type(value) in _PLAIN:
            return _digest(type(value).__name__, repr(value))
        if type(value) in (bytes, bytearray, memoryview):
            return _digest(type(value).__name__, bytes(value))
        if id(value) in self._met:
            return _digest("again", str(self._met[id(value)][0]))
        # Which tuples are one object differs between code from a source file and from its bytecode.
        if type(value) is not tuple:
            self._met[id(value)] = len(self._met), value
        self._depth += 1
        self._walked[0] += 1
        try:
            if self._depth > _MOST_NESTED or self._walked[0] > _MOST_OBJECTS:
                raise UnidentifiableError("a value is nested too deeply, or has too many parts")
            return self._digest_object(value)
        finally:
            self._depth -= 1

    def _digest_object(self, value: Any) -> bytes:
        for kinds, digest_known in _KNOWN:
            if isinstance(value, kinds):
                return digest_known(self, value)
        container = _CONTAINERS.get(type(value))
        return self._digest_state(value) if container is None else container(self, value)

    def _digest_sequence(self, value: Any) -> bytes:
        return _digest(type(value).__name__, *map(self.digest, value))

    def _digest_set(self, value: Any) -> bytes:
        # each independently: the objects met before depend on the order, which differs
        alone = (_DigestWalk(self._walked, self._depth).digest(element) for element in value)
        return _digest(type(value).__name__, *sorted(alone))

    def _digest_mapping(self, value: Any) -> bytes:
        return _digest("dict", *(self.digest(part) for pair in value.items() for part in pair))

    def _digest_module(self, value: ModuleType) -> bytes:
        return _digest("module", value.__name__)

    def _digest_method(self, value: MethodType) -> bytes:
        return _digest("method", self.digest(value.__self__), value.__name__)

    def _digest_wrapper(self, value: Any) -> bytes:
        return _digest(type(value).__name__, self.digest(value.__func__))

    def _digest_property(self, value: property) -> bytes:
        return _digest("property", *map(self.digest, (value.fget, value.fset, value.fdel)))

    def _digest_descriptor(self, value: GetSetDescriptorType | MemberDescriptorType) -> bytes:
        return _digest("descriptor", value.__objclass__.__qualname__, value.__name__)

    def _digest_builtin(self, value: BuiltinFunctionType) -> bytes:
        owner = value.__self__
        owner_digest = b"" if owner is None or isinstance(owner, ModuleType) else self.digest(owner)
        return _digest("builtin", value.__qualname__, owner_digest)

    def _digest_state(self, value: Any) -> bytes:
        try:
            reducer = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
        except Exception as error:
            raise UnidentifiableError(f"{type(value).__qualname__}: {error}") from error
        if isinstance(reduced, str):
            return _digest("global", getattr(value, "__module__", None) or "", reduced)
        function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if function is pickle.loads or function is load_function:  # the pickles themselves differ, see above
            return self.digest(function(*arguments))
        more = [*(items or ()), *(part for pair in pairs or () for part in pair)]
        return _digest("object", *map(self.digest, (function, arguments, state)), *map(self.digest, more))

    def _digest_class(self, value: type) -> bytes:
        name = f"{value.__module__}.{value.__qualname__}"
        if not _is_users(value.__module__):
            return _digest("class", name)
        skipped = ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "_abc_impl")
        members = [(key, member) for key, member in sorted(vars(value).items()) if key not in skipped]
        slots = [(key, member) for key, member in members if type(member).__name__ not in _DESCRIPTORS]
        return _digest("class", name, *map(self.digest, value.__bases__), self.digest(slots))

    def _digest_function(self, value: FunctionType) -> bytes:
        name = f"{value.__module__}.{value.__qualname__}"
        if not _is_users(value.__module__):
            if "<locals>" not in value.__qualname__:
                return _digest("function", name)
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return _digest("function", name, self.digest(cells), self.digest(value.__defaults__))
        referred = [
            (global_name, value.__globals__[global_name])
            for global_name in _names(value.__code__)
            if global_name in value.__globals__
        ]
        cells = []
        for cell in value.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:  # a variable that is not assigned yet
                cells.append(...)
        parts = (value.__code__, cells, value.__defaults__, value.__kwdefaults__, referred)
        return _digest("function", name, *map(self.digest, parts))

    def _digest_code(self, value: CodeType) -> bytes:
        parts = (value.co_consts, value.co_names, value.co_varnames)
        return _digest("code", value.co_code, *map(self._digest_constant, parts))

    def _digest_constant(self, value: Any) -> bytes:
        """Digest only the content, since source and bytecode differ in which constants are one object."""
        if isinstance(value, CodeType):
            return self._digest_code(value)
        if isinstance(value, tuple):
            return _digest("tuple", *map(self._digest_constant, value))
        return _DigestWalk(self._walked, self._depth).digest(value)


_KNOWN: tuple[tuple[Any, Callable[[_DigestWalk, Any], bytes]], ...] = (
    (ModuleType, _DigestWalk._digest_module),
    (type, _DigestWalk._digest_class),
    (FunctionType, _DigestWalk._digest_function),
    (CodeType, _DigestWalk._digest_code),
    (MethodType, _DigestWalk._digest_method),
    ((staticmethod, classmethod), _DigestWalk._digest_wrapper),
    (property, _DigestWalk._digest_property),
    (BuiltinFunctionType, _DigestWalk._digest_builtin),
    ((GetSetDescriptorType, MemberDescriptorType), _DigestWalk._digest_descriptor),
)

_CONTAINERS: dict[type, Callable[[_DigestWalk, Any], bytes]] = {
    list: _DigestWalk._digest_sequence,
    tuple: _DigestWalk._digest_sequence,
    set: _DigestWalk._digest_set,
    frozenset: _DigestWalk._digest_set,
    dict: _DigestWalk._digest_mapping,
    MappingProxyType: _DigestWalk._digest_mapping,
}

_DESCRIPTORS = ("getset_descriptor", "member_descriptor")


def _is_users(module: str | None) -> bool:
    if module == "__main__":
        return True
    return not is_installed(getattr(sys.modules.get(module or ""), "__file__", None))


def _names(code: CodeType) -> list[str]:
    """Return names of globals that a function, or one within it, may use."""
    inner = (name for const in code.co_consts if isinstance(const, CodeType) for name in _names(const))
    return sorted({*code.co_names, *inner})


def _digest(kind: str, *parts: str | bytes) -> bytes:
    hasher = hashlib.sha256(kind.encode())
    for part in _sized(parts):
        hasher.update(part)
    return hasher.digest()


def _sized(parts: Iterable[str | bytes]) -> Iterable[bytes]:
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        yield len(data).to_bytes(8, "big")
        yield data
