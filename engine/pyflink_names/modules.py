"""PyFlink's modules: those that Penstock has, and those that it refuses with a reason."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from penstock.engine.pyflink_names.unsupported_names import unsupported_module, unsupported_name
from penstock.operators.common.arguments import no_java_attribute

#: PyFlink's version that names, signatures and behaviour are of.
PYFLINK_VERSION = "2.3.0"

_COMMON = (
    "completable_future",
    "config_options",
    "configuration",
    "constants",
    "execution_config",
    "input_dependency_constraint",
    "io",
    "job_client",
    "job_execution_result",
    "job_id",
    "job_status",
    "restart_strategy",
    "serialization",
    "serializer",
    "time",
    "typeinfo",
    "types",
    "watermark_strategy",
)

_DATASTREAM = (
    "async_data_stream",
    "async_retry_predicates",
    "async_retry_strategies",
    "checkpoint_config",
    "checkpoint_storage",
    "checkpointing_mode",
    "connectors",
    "connectors.base",
    "connectors.file_system",
    "connectors.number_seq",
    "data_stream",
    "execution_mode",
    "externalized_checkpoint_retention",
    "formats",
    "formats.csv",
    "formats.json",
    "formats.parquet",
    "functions",
    "output_tag",
    "slot_sharing_group",
    "state",
    "state_backend",
    "stream_execution_environment",
    "time_domain",
    "timerservice",
    "utils",
    "window",
)

#: Module of PyFlink to module of Penstock.
MODULES: dict[str, str] = {
    "pyflink.common": "penstock.engine.pyflink.common",
    **{f"pyflink.common.{name}": f"penstock.engine.pyflink.common.{name}" for name in _COMMON},
    "pyflink.datastream": "penstock.engine.pyflink.datastream",
    **{f"pyflink.datastream.{name}": f"penstock.engine.pyflink.datastream.{name}" for name in _DATASTREAM},
    "pyflink.metrics": "penstock.engine.pyflink.metrics",
    "pyflink.metrics.metricbase": "penstock.engine.pyflink.metrics",
    "pyflink.table": "penstock.engine.pyflink.table",
    "pyflink.table.types": "penstock.engine.pyflink.table",
    "pyflink.version": "penstock.engine.pyflink_names.version",
}

_CAPTURE = "`penstock capture` plans such a script"
_TABLE = f"the Table API is not part of Penstock; Spark SQL runs queries, and {_CAPTURE}"
_JAR = (
    "it needs Flink's Java connector; Penstock reads and writes files, Delta tables and Spark DataFrames, "
    f"and {_CAPTURE}"
)
_JAVA_REASON = "there is no JVM of Flink to talk to"

#: Module of PyFlink, with all below it, to why it is not there.
REFUSED_MODULES: dict[str, str] = {
    "pyflink.table": _TABLE,
    "pyflink.datastream.connectors.kafka": _JAR,
    "pyflink.datastream.connectors.dynamic_kafka": _JAR,
    "pyflink.datastream.connectors.jdbc": _JAR,
    "pyflink.datastream.connectors.kinesis": _JAR,
    "pyflink.datastream.connectors.elasticsearch": _JAR,
    "pyflink.datastream.connectors.rabbitmq": _JAR,
    "pyflink.datastream.connectors.pulsar": _JAR,
    "pyflink.datastream.connectors.cassandra": _JAR,
    "pyflink.datastream.connectors.hybrid_source": "its parts are unbounded sources; read them one by one",
    "pyflink.datastream.formats.avro": "Avro needs Flink's jars; CSV, JSON and Parquet are supported",
    "pyflink.datastream.formats.orc": "ORC needs Flink's jars; CSV, JSON and Parquet are supported",
    "pyflink.common.utils": _JAVA_REASON,
    "pyflink.java_gateway": _JAVA_REASON,
    "pyflink.pyflink_gateway_server": _JAVA_REASON,
    "pyflink.pyflink_callback_server": _JAVA_REASON,
    "pyflink.find_flink_home": _JAVA_REASON,
    "pyflink.util": _JAVA_REASON,
    "pyflink.serializers": "records are serialized by Penstock itself",
    "pyflink.fn_execution": "these are the workers of PyFlink; Spark's run here",
    "pyflink.gen_protos": "these are the workers of PyFlink; Spark's run here",
    "pyflink.testing": "these are PyFlink's own tests",
    "pyflink.shell": "there is no shell; use python",
    "pyflink.examples": "copy an example to a file of your own and run that",
}


def refusal(module: str) -> str | None:
    """Why `module`, or one above it, is refused; None where it is not."""
    name = module
    while name:
        if name in REFUSED_MODULES:
            return REFUSED_MODULES[name]
        name = name.rpartition(".")[0]
    return None


# What of PyFlink's public API Penstock has, looked up in its modules, and what it refuses.


#: PyFlink's public names: a line a class or function, `module Class: member member` or `module function()`.
API_FILE = Path(__file__).parent / f"pyflink-{PYFLINK_VERSION}-api.txt"

#: What classes of PyFlink's have here and not there.
OWN_NAMES = (
    "pyflink.datastream.stream_execution_environment StreamExecutionEnvironment: "
    "from_dataframe get_stream_graph get_job_graph",
    "pyflink.datastream.data_stream DataStream: map_batches to_dataframe global_ join co_group",
    "pyflink.datastream.data_stream KeyedStream: aggregate interval_join",
)


class ApiLine(NamedTuple):
    """A class or function of the API, with its members; those of nested classes are `Inner.member`."""

    module: str
    name: str
    members: tuple[str, ...]


def api_lines() -> list[str]:
    """The lines of API_FILE."""
    return API_FILE.read_text(encoding="utf-8").splitlines()


def missing_names(lines: Iterable[str]) -> list[str]:
    """Names of `lines`, of the form of API_FILE, that Penstock lacks, as module.Class.member."""
    missing: list[str] = []
    for line in _parsed(lines):
        attributes = _attribute(_module(line.module), line.name)
        if attributes is None:
            missing.append(f"{line.module}.{line.name}")
            continue
        missing.extend(
            f"{line.module}.{line.name}.{member}"
            for member in line.members
            if _attribute(attributes[0], member) is None
        )
    return missing


def support_table() -> Iterator[str]:
    """Lines of Markdown: what of the API is there and what not, what is Penstock's own, what is refused."""
    lines = api_lines()
    missing = set(missing_names(lines))
    parsed = list(_parsed(lines))
    names = sum(1 + len(line.members) for line in parsed)
    lost = sum(
        1 + len(line.members) if f"{line.module}.{line.name}" in missing else 0 for line in parsed
    ) + sum(f"{line.module}.{line.name}.{name}" in missing for line in parsed for name in line.members)
    yield (
        f"Of the {names} public names of PyFlink {PYFLINK_VERSION}'s DataStream API {names - lost} are "
        "there; some of them only to say why they cannot work without Flink's JVM."
    )
    yield ""
    yield "| module | name | members | missing |"
    yield "|---|---|---|---|"
    for line in parsed:
        whole = f"{line.module}.{line.name}"
        lacking = [name for name in line.members if f"{whole}.{name}" in missing]
        there = [] if whole in missing else [name for name in line.members if name not in lacking]
        says = "all" if whole in missing else " ".join(lacking)
        yield f"| {line.module} | {line.name} | {' '.join(there)} | {says} |"
    yield ""
    yield "Penstock's own:"
    yield ""
    yield "| module | name | members |"
    yield "|---|---|---|"
    for line in _parsed(OWN_NAMES):
        yield f"| {line.module} | {line.name} | {' '.join(line.members)} |"
    yield ""
    yield "Refused, with everything below:"
    yield ""
    yield "| module | reason |"
    yield "|---|---|"
    for name, reason in REFUSED_MODULES.items():
        yield f"| {name} | {reason} |"


def _parsed(lines: Iterable[str]) -> Iterator[ApiLine]:
    for line in lines:
        text = line.strip()
        if text and not text.startswith("#"):
            head, _, members = text.partition(":")
            module, _, name = head.partition(" ")
            yield ApiLine(module, name.removesuffix("()"), tuple(members.split()))


def _module(name: str) -> ModuleType | None:
    return importlib.import_module(MODULES[name]) if name in MODULES else None


def _attribute(thing: Any, path: str) -> tuple[Any] | None:
    """The attribute, in a tuple since it may be None; None where there is none."""
    for name in path.split("."):
        if thing is None or not hasattr(thing, name):
            return None
        thing = getattr(thing, name)
    return (thing,)


# Names of PyFlink's modules that Penstock's do not define: found where PyFlink has them from, or refused.
#
# PyFlink's modules have many names by importing them: `Duration` in `pyflink.common.watermark_strategy`,
# `ValueState` in `pyflink.datastream.functions`, `List` in most. Scripts import them from there.


#: PyFlink's names, as tests/engine/pyflink/common/ask_names.py writes them: lines `module origin: name name`.
NAMES_FILE = Path(__file__).parent / f"pyflink-{PYFLINK_VERSION}-names.txt"

_OWN, _TYPE_VARIABLE, _MODULES = ".", "TypeVar", "modules"


@cache
def pyflink_names() -> dict[str, dict[str, str]]:
    """PyFlink's names by module: each to where the module has it from; names of modules to those modules."""
    names: dict[str, dict[str, str]] = {}
    for line in NAMES_FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        head, _, words = line.partition(": ")
        module, _, origin = head.partition(" ")
        for word in words.split():
            name, _, target = word.partition("=")
            whole = f"{_MODULES}={target or name}" if origin == _MODULES else origin
            names.setdefault(module, {})[name] = whole
    return names


def other_name(module: str, name: str) -> Any:
    """What `name` is in PyFlink's `module`, one that Penstock has under another module or not at all.

    Raises UnsupportedNameError where Penstock lacks it, AttributeError where PyFlink does.
    """
    origin = pyflink_names().get(module, {}).get(name)
    if origin is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if origin == _TYPE_VARIABLE:
        return TypeVar(name)  # named when the script asks for it
    if origin.startswith(_MODULES):
        return _named_module(origin.partition("=")[2], f"{module}.{name}")
    if origin == _OWN or origin in REFUSED_MODULES:
        raise unsupported_name(f"{module}.{name}", refusal(origin) or _JAVA_REASON)
    source = _named_module(origin, f"{module}.{name}")
    if name in vars(source):
        return vars(source)[name]
    return other_name(origin, name) if origin in MODULES else getattr(source, name)


def _named_module(name: str, wanted: str) -> ModuleType:
    if name in MODULES:
        return importlib.import_module(MODULES[name])
    if name.partition(".")[0] in sys.stdlib_module_names:
        return importlib.import_module(name)
    raise unsupported_name(wanted, refusal(name) or _JAVA_REASON)


# Makes `pyflink` and its public modules resolve to Penstock's, whether or not PyFlink is installed.
#
# `import pyflink.common.typeinfo` gives the module object engine.common.typeinfo itself, so that its classes
# are the same whichever name they are imported by. What Penstock lacks raises ModuleNotFoundError (a module)
# or
# ImportError (a name), which say why; attributes that hold a Java object in PyFlink (`_j_…`) raise
# NoJavaError.
# `importlib.metadata` finds the distribution apache-flink.


_ROOT = "pyflink"


#: `pyflink.__file__`: scripts look for files beside it.
_FILE = str(Path(__file__).parent / _ROOT / "__init__.py")
_DISTRIBUTION = "apache-flink"
_ANY = DistributionFinder.Context()


class _PyflinkDistribution(Distribution):
    """The metadata of PyFlink that this process seems to have."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {PYFLINK_VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        return Path(_FILE).parents[1] / path


class PyflinkFinder(DistributionFinder, Loader):
    """Finds `pyflink` and everything below it; nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a module of PyFlink's; loading one that Penstock lacks is a ModuleNotFoundError."""
        if fullname == _ROOT:
            spec = ModuleSpec(fullname, self, origin=_FILE, is_package=True)
            spec.has_location = True
            spec.submodule_search_locations = [str(Path(_FILE).parent)]
            return spec
        if fullname.startswith(_ROOT + ".") and (fullname in MODULES or refusal(fullname)):
            return ModuleSpec(fullname, self)
        return None

    def find_distributions(self, context: DistributionFinder.Context = _ANY) -> Iterator[Distribution]:
        """The distribution of PyFlink, or none if another one is looked for."""
        if context.name is None or re.sub(r"[-_.]+", "-", context.name).lower() == _DISTRIBUTION:
            yield _PyflinkDistribution()

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module: only `pyflink` itself keeps it."""

    def exec_module(self, module: ModuleType) -> None:
        """Put Penstock's module in place of `module`, or fill `pyflink` itself."""
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        if name == _ROOT:
            module.__version__ = PYFLINK_VERSION  # type: ignore[attr-defined]
            module.__doc__ = "Penstock instead of PyFlink."
            return
        if name not in MODULES:
            raise unsupported_module(name, refusal(name) or "")
        ours = importlib.import_module(MODULES[name])
        if name not in _served:
            _served.add(name)
            _tell_that_there_is_no_java(ours)
            ours.__getattr__ = _with_other_names(name, ours)  # type: ignore[method-assign]
        # importlib gives the importer what stands here when this returns
        sys.modules[name] = ours


_finder = PyflinkFinder()
#: PyFlink's modules whose counterparts find the names that they lack.
_served: set[str] = set()


def install() -> None:
    """Let `pyflink` mean Penstock from here on; does nothing where it does already.

    Modules of a real PyFlink that were imported before are forgotten.
    """
    if installed():
        return
    _forget()
    sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Whether `pyflink` means Penstock in this process."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Let `pyflink` mean what it meant before."""
    if installed():
        sys.meta_path.remove(_finder)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name == _ROOT or name.startswith(_ROOT + ".")]:
        del sys.modules[name]


def _tell_that_there_is_no_java(ours: ModuleType) -> None:
    """Give the classes of a module attributes `_j_…` that raise, which hold Java objects in PyFlink."""
    for value in vars(ours).values():
        of_penstock = isinstance(value, type) and value.__module__.startswith("penstock.")
        if of_penstock and not issubclass(value, Enum) and not hasattr(value, "__getattr__"):
            value.__getattr__ = no_java_attribute


def _with_other_names(name: str, ours: ModuleType) -> Callable[[str], Any]:
    """`__getattr__` for a module: names that it lacks and that PyFlink's module `name` has."""
    before: Callable[[str], Any] | None = vars(ours).get("__getattr__")

    def find(attribute: str) -> Any:
        if before is not None:
            try:
                return before(attribute)
            except AttributeError:
                pass
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        value = other_name(name, attribute)
        setattr(ours, attribute, value)
        return value

    return find
