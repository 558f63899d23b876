"""`pyflink` means Penstock while the hook is installed, and says what it is not."""

import importlib
import importlib.metadata
import importlib.util
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.pyflink.common import Configuration, Duration
from penstock.engine.pyflink.datastream import OutputTag, StreamExecutionEnvironment
from penstock.engine.pyflink_names import install, installed, uninstall
from penstock.engine.pyflink_names.modules import MODULES, REFUSED_MODULES, penstock_module, pyflink_names
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.file_source import FileSource


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_the_same_object_by_either_name(name: str) -> None:
    assert importlib.import_module(name) is penstock_module(name)


@pytest.mark.usefixtures("hook")
def test_classes_are_the_same_by_either_name() -> None:
    found: dict[str, Any] = {}
    exec(
        "from pyflink.common import Types as short\nfrom pyflink.common.typeinfo import Types as long", found
    )

    assert found["short"] is Types
    assert found["long"] is Types


@pytest.mark.usefixtures("hook")
def test_submodules_are_attributes_of_packages() -> None:
    found: dict[str, Any] = {}
    exec("import pyflink.datastream.connectors.file_system", found)
    pyflink = found["pyflink"]
    assert pyflink.datastream.connectors.file_system.FileSource is FileSource
    assert pyflink.__version__ == "2.3.0"
    assert importlib.import_module("pyflink.version").__version__ == "2.3.0"


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    "name", [*sorted(set(REFUSED_MODULES) - set(MODULES)), "pyflink.table.expressions", "pyflink.table.udf"]
)
def test_a_refused_module_says_why(name: str) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(name)
    reason = next(why for module, why in REFUSED_MODULES.items() if f"{name}.".startswith(f"{module}."))
    assert reason in str(raised.value)
    assert str(raised.value).startswith(f"PyFlink's {name} is not supported (")
    assert "penstock info --api" in str(raised.value)


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("name", ["pyflink.datastream.job", "pyflink.nothing", "pyflink.common.nothing"])
def test_a_module_that_pyflink_lacks_is_named(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=name) as raised:
        importlib.import_module(name)
    assert raised.value.name == name


@pytest.mark.usefixtures("hook")
def test_the_package_says_where_it_lies_and_what_it_is() -> None:
    pyflink: Any = importlib.import_module("pyflink")
    assert Path(pyflink.__file__).is_file()
    assert list(pyflink.__path__) == [str(Path(pyflink.__file__).parent)]
    assert list(pkgutil.iter_modules(pyflink.__path__)) == []
    for missing in (
        "pyflink.nonsense",
        "pyflink.common.nonsense",
        "pyflink.supported",
        "pyflink.import_hook",
    ):
        assert importlib.util.find_spec(missing) is None
    for there in ("pyflink", "pyflink.datastream", "pyflink.java_gateway", "pyflink.table.udf"):
        assert importlib.util.find_spec(there) is not None
    for name in ("apache-flink", "Apache_Flink", "apache.flink"):
        assert importlib.metadata.version(name) == pyflink.__version__ == "2.3.0"
    assert importlib.metadata.metadata("apache-flink")["Name"] == "apache-flink"
    assert "apache-flink" in {one.name for one in importlib.metadata.distributions()}
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("apache-nonsense")


@pytest.mark.usefixtures("hook")
def test_attributes_that_hold_java_objects_say_that_there_is_no_jvm() -> None:
    for module in ("pyflink.datastream", "pyflink.common", "pyflink.datastream.connectors.file_system"):
        importlib.import_module(module)
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([1], Types.INT())
    holders: list[Any] = [
        env, stream, stream.key_by(str), env.get_config(), env.get_checkpoint_config(), Configuration(),
        Types.INT(), Types.ROW([Types.INT()]), OutputTag("a"), Duration.of_millis(1), stream.print(),
    ]  # fmt: skip
    for holder in holders:
        kind = type(holder).__name__
        with pytest.raises(NoJavaError, match=rf"^{kind}\._j_thing: Penstock runs without Flink's JVM"):
            _ = holder._j_thing
        assert not hasattr(holder, "_j_thing")
        with pytest.raises(AttributeError, match=f"^'{kind}' object has no attribute 'nonsense'$"):
            _ = holder.nonsense
    assert pickle.loads(pickle.dumps(Types.INT())) == Types.INT()


#: What PyFlink's modules define and Penstock's do not: all of it talks to Flink's JVM.
WITHOUT_MEANING_HERE = {
    "pyflink.common.typeinfo _from_java_type _is_instance_of",
    "pyflink.common.types _create_row",
    "pyflink.datastream.checkpoint_storage _from_j_checkpoint_storage",
    "pyflink.datastream.data_stream WINDOW_STATE_NAME _create_j_data_stream_python_function_info "
    "_get_one_input_stream_operator _get_two_input_stream_operator",
    "pyflink.datastream.functions _get_python_env",
    "pyflink.datastream.state_backend _from_j_state_backend",
    "pyflink.datastream.utils convert_to_python_obj create_hadoop_configuration create_java_properties "
    "pickled_bytes_to_python_obj",
}


@pytest.mark.usefixtures("hook")
def test_every_name_of_pyflink_is_there_or_refused() -> None:
    refused: dict[str, list[str]] = {}
    for module, names in pyflink_names().items():
        for name, origin in names.items():
            message = refusal_of(module, name)
            if message is None:
                continue
            assert message.startswith("PyFlink's pyflink."), (module, name, message)
            assert " is not supported (" in message
            if origin == "." and module in MODULES:
                refused.setdefault(module, []).append(name)
    assert {" ".join([module, *names]) for module, names in refused.items()} == WITHOUT_MEANING_HERE


def refusal_of(module: str, name: str) -> str | None:
    """What the import of a name is refused with; None where it is there."""
    try:
        exec(f"from {module} import {name}")
    except ImportError as error:
        return str(error)
    return None


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    ("module", "name", "where"),
    [
        ("pyflink.common.watermark_strategy", "Duration", "penstock.operators.common.time"),
        ("pyflink.datastream.window", "Time", "penstock.operators.common.time"),
        ("pyflink.datastream.functions", "ValueState", "penstock.datastream.state"),
        ("pyflink.datastream.data_stream", "WindowFunction", "penstock.datastream.functions"),
        ("pyflink.datastream.utils", "RowTypeInfo", "penstock.operators.common.typeinfo"),
        ("pyflink.metrics.metricbase", "MetricGroup", "penstock.operators.functions.runtime_context"),
        ("pyflink.table.types", "DataTypes", "penstock.operators.formats.data_types"),
        ("pyflink.common.typeinfo", "Enum", "enum"),
        ("pyflink.datastream.functions", "List", "typing"),
    ],
)
def test_what_a_module_imports_is_the_same_there(module: str, name: str, where: str) -> None:
    there = getattr(importlib.import_module(where), name)
    assert getattr(importlib.import_module(module), name) is there


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("name", ["KEY", "W", "IN", "OUT"])
def test_type_variables_can_be_parameters_of_classes(name: str) -> None:
    exec(
        f"from typing import Generic\nfrom pyflink.datastream.functions import {name}\n"
        f"class Of(Generic[{name}]): pass\nOf[int]"
    )


@pytest.mark.usefixtures("hook")
def test_a_name_that_does_not_exist_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'KafkaFountain'"):
        exec("from pyflink.datastream.connectors import KafkaFountain")
    assert not hasattr(importlib.import_module("pyflink.datastream.connectors"), "KafkaFountain")


def test_install_twice_and_uninstall() -> None:
    before = list(sys.meta_path)
    install()
    install()
    assert installed()
    assert importlib.import_module("pyflink.common") is sys.modules["penstock.engine.pyflink.common"]
    uninstall()
    assert sys.meta_path == before
    assert not [name for name in sys.modules if name.split(".")[0] == "pyflink"]


def test_modules_of_a_real_pyflink_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(sys)("pyflink.common")
    monkeypatch.setitem(sys.modules, "pyflink.common", real)
    install()
    try:
        assert importlib.import_module("pyflink.common") is not real
    finally:
        uninstall()


@pytest.mark.slow
def test_a_fresh_process_needs_only_install() -> None:
    script = (
        "from penstock.engine.pyflink_names import install; install()\n"
        "from pyflink.datastream.functions import MapFunction\n"
        "import penstock.datastream.functions as ours\n"
        "assert MapFunction is ours.MapFunction\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
