"""The table of PyFlink's supported and refused modules, and the hook that imports them."""

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

from penstock.operators.common.arguments import no_java_attribute

#: The version of PyFlink whose names, signatures and behaviour are implemented.
PYFLINK_VERSION = "2.3.0"

#: Module of PyFlink to the module of Penstock that implements it.
FILES: dict[str, str] = {
    "pyflink.common": "penstock.engine.pyflink.common",
    "pyflink.common.execution_config": "penstock.engine.pyflink.common.execution_config",
    "pyflink.common.job_client": "penstock.engine.pyflink.common.job_client",
    "pyflink.datastream": "penstock.engine.pyflink.datastream",
    "pyflink.datastream.async_data_stream": "penstock.engine.pyflink.datastream.async_data_stream",
    "pyflink.datastream.checkpoint_config": "penstock.engine.pyflink.datastream.checkpoint_config",
    "pyflink.datastream.data_stream": "penstock.engine.pyflink.datastream.data_stream",
    "pyflink.datastream.functions": "penstock.datastream.functions",
    "pyflink.datastream.slot_sharing_group": "penstock.engine.pyflink.datastream.slot_sharing_group",
    "pyflink.datastream.state": "penstock.datastream.state",
    "pyflink.datastream.stream_execution_environment": (
        "penstock.engine.pyflink.datastream.stream_execution_environment"
    ),
    "pyflink.datastream.window": "penstock.datastream.window",
}

#: Modules of PyFlink without a file here: the modules of Penstock from which each takes its names.
GATHERED: dict[str, dict[str, str]] = {
    "pyflink.common.completable_future": {
        "engine.pyflink.common.job_client": "CompletableFuture",
    },
    "pyflink.common.config_options": {
        "operators.common.configuration": "ConfigOption ConfigOptions",
    },
    "pyflink.common.configuration": {
        "operators.common.configuration": "Configuration",
    },
    "pyflink.common.constants": {},
    "pyflink.common.input_dependency_constraint": {
        "engine.pyflink.common.execution_config": "InputDependencyConstraint",
    },
    "pyflink.common.io": {
        "engine.pyflink.datastream.environment_sources": "InputFormat",
    },
    "pyflink.common.job_execution_result": {
        "engine.pyflink.common.job_client": "JobExecutionResult",
    },
    "pyflink.common.job_id": {
        "engine.pyflink.common.job_client": "JobID",
    },
    "pyflink.common.job_status": {
        "engine.pyflink.common.job_client": "JobStatus",
    },
    "pyflink.common.restart_strategy": {
        "engine.pyflink.common.execution_config": "RestartStrategies RestartStrategyConfiguration",
    },
    "pyflink.common.serialization": {
        "operators.formats.part_formats": (
            "BulkWriterFactory ByteArraySchema DeserializationSchema Encoder RowDataBulkWriterFactory "
            "RowFieldExtractorSchema SerializationSchema SimpleStringSchema"
        ),
    },
    "pyflink.common.serializer": {
        "operators.common.basic_types": "TypeSerializer VoidNamespaceSerializer",
    },
    "pyflink.common.time": {
        "operators.common.time": "Duration Instant Time",
    },
    "pyflink.common.typeinfo": {
        "operators.common.typeinfo": (
            "BasicArrayTypeInfo BasicType BasicTypeInfo DateTypeInfo ExternalTypeInfo InstantTypeInfo "
            "ListTypeInfo LocalTimeTypeInfo MapTypeInfo ObjectArrayTypeInfo PickledBytesTypeInfo "
            "PrimitiveArrayTypeInfo RowTypeInfo SqlTimeTypeInfo TimestampTypeInfo TimeTypeInfo "
            "TupleTypeInfo TypeInformation Types"
        ),
    },
    "pyflink.common.types": {
        "operators.common.row": "Row RowKind",
    },
    "pyflink.common.watermark_strategy": {
        "operators.common.time": "AssignerWithPeriodicWatermarksWrapper TimestampAssigner WatermarkStrategy",
    },
    "pyflink.datastream.async_retry_predicates": {
        "operators.functions.async_functions": (
            "empty_result_predicate exception_type_predicate has_exception_predicate"
        ),
    },
    "pyflink.datastream.async_retry_strategies": {
        "operators.functions.async_functions": (
            "NO_RETRY_STRATEGY ExponentialBackoffDelayRetryStrategy FixedDelayRetryStrategy "
            "NoRetryStrategy RetryPredicate"
        ),
    },
    "pyflink.datastream.checkpoint_storage": {
        "engine.pyflink.datastream.checkpoint_config": (
            "CheckpointStorage CustomCheckpointStorage FileSystemCheckpointStorage "
            "JobManagerCheckpointStorage"
        ),
    },
    "pyflink.datastream.checkpointing_mode": {
        "engine.pyflink.datastream.checkpoint_config": "CheckpointingMode",
    },
    "pyflink.datastream.connectors": {
        "operators.connectors.sink": "DeliveryGuarantee Sink",
        "operators.connectors.source": "Source NumberSequenceSource",
        "operators.connectors.file_sink_settings": ("BucketAssigner OutputFileConfig RollingPolicy"),
        "operators.connectors.file_source": (
            "FileEnumeratorProvider FileSource FileSourceBuilder FileSplitAssignerProvider"
        ),
        "operators.connectors.file_sink": "FileSink StreamingFileSink",
        "operators.formats.csv_files": "StreamFormat",
    },
    "pyflink.datastream.connectors.base": {
        "operators.connectors.sink": "DeliveryGuarantee Sink StreamTransformer SupportsPreprocessing",
        "operators.connectors.source": "Source",
    },
    "pyflink.datastream.connectors.file_system": {
        "operators.connectors.file_sink": "FileSink StreamingFileSink",
        "operators.connectors.file_sink_settings": (
            "BucketAssigner DefaultRollingPolicy FileCompactor FileCompactStrategy "
            "OnCheckpointRollingPolicy OutputFileConfig RollingPolicy"
        ),
        "operators.connectors.file_source": (
            "FileEnumeratorProvider FileSource FileSourceBuilder FileSplitAssignerProvider"
        ),
        "operators.formats.csv_files": "BulkFormat StreamFormat",
    },
    "pyflink.datastream.connectors.number_seq": {
        "operators.connectors.source": "NumberSequenceSource",
    },
    "pyflink.datastream.execution_mode": {
        "engine.pyflink.datastream.environment_options": "RuntimeExecutionMode",
    },
    "pyflink.datastream.externalized_checkpoint_retention": {
        "engine.pyflink.datastream.checkpoint_config": "ExternalizedCheckpointRetention",
    },
    "pyflink.datastream.formats": {},
    "pyflink.datastream.formats.csv": {
        "operators.formats.csv_files": "CsvBulkWriters CsvReaderFormat",
        "operators.formats.csv_rows": "CsvSchema CsvSchemaBuilder",
        "operators.formats.csv_schemas": "CsvRowDeserializationSchema CsvRowSerializationSchema",
    },
    "pyflink.datastream.formats.json": {
        "operators.formats.json_values": "JsonRowDeserializationSchema JsonRowSerializationSchema",
    },
    "pyflink.datastream.formats.parquet": {
        "operators.formats.parquet_files": (
            "AvroParquetReaders AvroParquetWriters ParquetBulkWriters ParquetColumnarRowInputFormat"
        ),
    },
    "pyflink.datastream.output_tag": {
        "operators.common.output_tag": "OutputTag",
    },
    "pyflink.datastream.state_backend": {
        "engine.pyflink.datastream.checkpoint_config": (
            "CustomStateBackend EmbeddedRocksDBStateBackend HashMapStateBackend PredefinedOptions "
            "StateBackend"
        ),
    },
    "pyflink.datastream.time_domain": {
        "operators.functions.functions": "TimeDomain",
    },
    "pyflink.datastream.timerservice": {
        "operators.functions.functions": "TimerService",
    },
    "pyflink.datastream.utils": {
        "operators.connectors.source": "ResultTypeQueryable",
    },
    "pyflink.metrics": {
        "operators.functions.runtime_context": "Counter Distribution Meter Metric MetricGroup",
    },
    "pyflink.metrics.metricbase": {
        "operators.functions.runtime_context": "Counter Distribution Meter Metric MetricGroup",
    },
    "pyflink.table": {
        "operators.formats.data_types": "DataTypes",
    },
    "pyflink.table.types": {
        "operators.formats.data_types": "DataTypes",
    },
    "pyflink.version": {},
}

#: Additional values of modules in GATHERED.
_VALUES: dict[str, dict[str, Any]] = {
    "pyflink.common.constants": {
        "MAX_LONG_VALUE": 2**63 - 1,
        "MIN_LONG_VALUE": -(2**63),
        "DEFAULT_OUTPUT_TAG": "",
    },
    "pyflink.common.serializer": {"void": b""},
    "pyflink.version": {"__version__": PYFLINK_VERSION},
}

#: The modules of PyFlink that Penstock has.
MODULES: tuple[str, ...] = (*FILES, *GATHERED)

_CAPTURE = "`penstock capture` plans such a script"
_TABLE = f"the Table API is not part of Penstock; Spark SQL runs queries, and {_CAPTURE}"
_JAR = (
    "it needs Flink's Java connector; Penstock reads and writes files, Delta tables and Spark DataFrames, "
    f"and {_CAPTURE}"
)
_JAVA_REASON = "it needs a JVM of Flink, which Penstock does not start"

#: Module of PyFlink, including all modules below it, to the reason why it is refused.
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


class UnsupportedNameError(ImportError):
    """A name of PyFlink's API that Penstock does not support."""


class UnsupportedModuleError(UnsupportedNameError, ModuleNotFoundError):
    """A module of PyFlink's that Penstock does not support."""


def unsupported_name(name: str, reason: str = "") -> UnsupportedNameError:
    """Return the error for `name`, such as "pyflink.common.X"; `reason` is a clause for its message."""
    return UnsupportedNameError(_message(name, reason), name=name)


def unsupported_module(name: str, reason: str = "") -> UnsupportedModuleError:
    """Return the error for the module `name`; `reason` is a clause for its message."""
    return UnsupportedModuleError(_message(name, reason), name=name)


def _message(name: str, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    return (
        f"PyFlink's {name} is not supported{why}. `penstock info --api` and Penstock's README list the "
        "supported names."
    )


def refusal(module: str) -> str | None:
    """Return the reason why `module`, or a module above it, is refused; None if it is not."""
    name = module
    while name:
        if name in REFUSED_MODULES:
            return REFUSED_MODULES[name]
        name = name.rpartition(".")[0]
    return None


# The coverage of PyFlink's public API, looked up in Penstock's modules.


#: PyFlink's public names: one line per class or function, `module Class: member member` or
#: `module function()`.
API_FILE = Path(__file__).parent / f"pyflink-{PYFLINK_VERSION}-api.txt"

#: Members that Penstock adds to classes of PyFlink.
OWN_NAMES = (
    "pyflink.datastream.stream_execution_environment StreamExecutionEnvironment: "
    "from_dataframe get_stream_graph get_job_graph",
    "pyflink.datastream.data_stream DataStream: map_batches to_dataframe global_ join co_group",
    "pyflink.datastream.data_stream KeyedStream: aggregate interval_join",
)


class ApiLine(NamedTuple):
    """A class or function of the API, with its members; members of nested classes are `Inner.member`."""

    module: str
    name: str
    members: tuple[str, ...]


def api_lines() -> list[str]:
    """Return the lines of API_FILE."""
    return API_FILE.read_text(encoding="utf-8").splitlines()


def missing_names(lines: Iterable[str]) -> list[str]:
    """Return the names in `lines`, in the form of API_FILE, that Penstock lacks, as module.Class.member."""
    missing: list[str] = []
    for line in _parsed(lines):
        attributes = _attribute(penstock_module(line.module), line.name)
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
    """Yield lines of Markdown about supported and missing names, Penstock's additions, refused modules."""
    lines = api_lines()
    missing = set(missing_names(lines))
    parsed = list(_parsed(lines))
    names = sum(1 + len(line.members) for line in parsed)
    lost = sum(
        1 + len(line.members) if f"{line.module}.{line.name}" in missing else 0 for line in parsed
    ) + sum(f"{line.module}.{line.name}.{name}" in missing for line in parsed for name in line.members)
    yield (
        f"Of the {names} public names of PyFlink {PYFLINK_VERSION}'s DataStream API {names - lost} exist; "
        "some of them only raise an error with the reason why they cannot work without Flink's JVM."
    )
    yield ""
    yield "| module | name | members | missing |"
    yield "|---|---|---|---|"
    for line in parsed:
        whole = f"{line.module}.{line.name}"
        lacking = [name for name in line.members if f"{whole}.{name}" in missing]
        members = [] if whole in missing else [name for name in line.members if name not in lacking]
        missing_members = "all" if whole in missing else " ".join(lacking)
        yield f"| {line.module} | {line.name} | {' '.join(members)} | {missing_members} |"
    yield ""
    yield "Penstock's additions:"
    yield ""
    yield "| module | name | members |"
    yield "|---|---|---|"
    for line in _parsed(OWN_NAMES):
        yield f"| {line.module} | {line.name} | {' '.join(line.members)} |"
    yield ""
    yield "Refused, including all modules below:"
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


@cache
def penstock_module(name: str) -> ModuleType | None:
    """Return Penstock's module for the module `name` of PyFlink; None if it has none.

    It is the same object each time, so that classes and changed attributes are the same under either name.
    """
    if name in FILES:
        return importlib.import_module(FILES[name])
    if name not in GATHERED:
        return None
    module = ModuleType(name, f"The names of PyFlink's `{name}`.")
    if any(other.startswith(f"{name}.") for other in (*MODULES, *REFUSED_MODULES)):
        module.__path__ = []  # a package
    for home, names in GATHERED[name].items():
        source = importlib.import_module(f"penstock.{home}")
        vars(module).update((public, getattr(source, public)) for public in names.split())
    vars(module).update(_VALUES.get(name, {}))
    vars(module)["__all__"] = sorted(public for public in vars(module) if not public.startswith("_"))
    return module


def _attribute(thing: Any, path: str) -> tuple[Any] | None:
    """Return the attribute in a tuple, because it may be None; None if it does not exist."""
    for name in path.split("."):
        if thing is None or not hasattr(thing, name):
            return None
        thing = getattr(thing, name)
    return (thing,)


# Names that PyFlink's modules only import: looked up in the module that defines them, or refused.
#
# Many names of PyFlink's modules are imports: `Duration` in `pyflink.common.watermark_strategy`, `ValueState`
# in `pyflink.datastream.functions`, `List` in most. Scripts import them from these modules.


#: PyFlink's names, written by tests/engine/pyflink/common/ask_names.py: lines `module origin: name name`.
NAMES_FILE = Path(__file__).parent / f"pyflink-{PYFLINK_VERSION}-names.txt"

_OWN, _TYPE_VARIABLE, _MODULES = ".", "TypeVar", "modules"


@cache
def pyflink_names() -> dict[str, dict[str, str]]:
    """Return PyFlink's names by module, each with its origin; for names of modules, the module itself."""
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
    """Return the value of `name` in PyFlink's `module`, which in Penstock is a name of another module.

    Raises UnsupportedNameError if Penstock lacks the name, AttributeError if PyFlink does.
    """
    origin = pyflink_names().get(module, {}).get(name)
    if origin is None:
        if module in REFUSED_MODULES and not name.startswith("_"):
            raise unsupported_name(f"{module}.{name}", REFUSED_MODULES[module])
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if origin == _TYPE_VARIABLE:
        return TypeVar(name)  # made when a script requests it
    if origin.startswith(_MODULES):
        return _named_module(origin.partition("=")[2], f"{module}.{name}")
    if origin == _OWN or origin in REFUSED_MODULES:
        raise unsupported_name(f"{module}.{name}", refusal(origin) or _JAVA_REASON)
    source = _named_module(origin, f"{module}.{name}")
    if name in vars(source):
        return vars(source)[name]
    return other_name(origin, name) if origin in MODULES else getattr(source, name)


def _named_module(name: str, wanted: str) -> ModuleType:
    if (module := penstock_module(name)) is not None:
        return module
    if name.partition(".")[0] in sys.stdlib_module_names:
        return importlib.import_module(name)
    raise unsupported_name(wanted, refusal(name) or _JAVA_REASON)


# The import hook: `pyflink` and its public modules are Penstock's, whether or not PyFlink is installed.
#
# `import pyflink.datastream.data_stream` returns the module object of Penstock itself, so that its classes
# are the same under both names. A missing module raises ModuleNotFoundError, a missing name ImportError, both
# with the reason; attributes that hold a Java object in PyFlink (`_j_…`) raise NoJavaError.
# `importlib.metadata` finds the distribution apache-flink.


_ROOT = "pyflink"


#: `pyflink.__file__`: scripts look for files next to it.
_FILE = str(Path(__file__).parent / _ROOT / "__init__.py")
_DISTRIBUTION = "apache-flink"
_ANY = DistributionFinder.Context()


class _PyflinkDistribution(Distribution):
    """The metadata of the PyFlink that this process appears to have."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {PYFLINK_VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        return Path(_FILE).parents[1] / path


class PyflinkFinder(DistributionFinder, Loader):
    """Finds `pyflink` and the modules below it, and no other module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a module of PyFlink; loading a missing one raises ModuleNotFoundError."""
        if fullname == _ROOT:
            spec = ModuleSpec(fullname, self, origin=_FILE, is_package=True)
            spec.has_location = True
            spec.submodule_search_locations = [str(Path(_FILE).parent)]
            return spec
        if fullname.startswith(_ROOT + ".") and (fullname in MODULES or refusal(fullname)):
            return ModuleSpec(fullname, self)
        return None

    def find_distributions(self, context: DistributionFinder.Context = _ANY) -> Iterator[Distribution]:
        """Yield the distribution of PyFlink, unless the context names another one."""
        if context.name is None or re.sub(r"[-_.]+", "-", context.name).lower() == _DISTRIBUTION:
            yield _PyflinkDistribution()

    def create_module(self, spec: ModuleSpec) -> None:
        """Create a new module by default; it is used for `pyflink` itself only."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace `module` by Penstock's module, or fill `pyflink` itself."""
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        if name == _ROOT:
            module.__version__ = PYFLINK_VERSION  # type: ignore[attr-defined]
            module.__doc__ = "Penstock instead of PyFlink."
            return
        ours = penstock_module(name)
        if ours is None:
            raise unsupported_module(name, refusal(name) or "")
        if name not in _served:
            _served.add(name)
            _refuse_java_attributes(ours)
            ours.__getattr__ = _with_other_names(name, ours)  # type: ignore[method-assign]
        # importlib returns this entry to the importer
        sys.modules[name] = ours


_finder = PyflinkFinder()
#: PyFlink's modules whose counterparts look up missing names by `other_name`.
_served: set[str] = set()


def install() -> None:
    """Make `pyflink` mean Penstock from now on; do nothing if it does already.

    Modules of a real PyFlink that were imported before are removed from `sys.modules`.
    """
    if installed():
        return
    _forget()
    sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Whether `pyflink` means Penstock in this process."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Undo `install`, so that imports of `pyflink` find the real PyFlink, if it is installed."""
    if installed():
        sys.meta_path.remove(_finder)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name == _ROOT or name.startswith(_ROOT + ".")]:
        del sys.modules[name]


def _refuse_java_attributes(ours: ModuleType) -> None:
    """Let the attributes `_j_…` of a module's classes, Java objects in PyFlink, raise NoJavaError."""
    for value in vars(ours).values():
        is_ours = isinstance(value, type) and value.__module__.startswith("penstock.")
        if is_ours and not issubclass(value, Enum) and not hasattr(value, "__getattr__"):
            value.__getattr__ = no_java_attribute


def _with_other_names(name: str, ours: ModuleType) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module, which finds names that only PyFlink's module `name` has."""
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
