"""`pyflink` means Penstock while the hook is installed, and says what it is not."""

import importlib
import subprocess
import sys
from typing import Any

import pytest

from engine.common.typeinfo import Types
from engine.pyflink_names import install, installed, uninstall
from engine.pyflink_names.modules import MODULES, REFUSED_MODULES, REFUSED_NAMES


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_the_same_object_by_either_name(name: str) -> None:
    assert importlib.import_module(name) is importlib.import_module(MODULES[name])


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
    assert pyflink.datastream.connectors.file_system.__name__ == "engine.datastream.connectors.file_system"
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
    assert "is not supported by Penstock" in str(raised.value)
    assert "penstock info --api" in str(raised.value)


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("name", ["pyflink.datastream.job", "pyflink.nothing", "pyflink.common.nothing"])
def test_a_module_that_pyflink_lacks_is_named(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=name) as raised:
        importlib.import_module(name)
    assert raised.value.name == name


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((module, name) for module, names in REFUSED_NAMES.items() for name in names),
        ("pyflink.common", "AvroRowSerializationSchema"),
    ],
)
def test_a_refused_name_says_why(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=f"{module}.{name} is not supported by Penstock"):
        exec(f"from {module} import {name}")


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
    assert importlib.import_module("pyflink.common") is sys.modules["engine.common"]
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


def test_a_fresh_process_needs_only_install() -> None:
    script = (
        "from engine.pyflink_names import install; install()\n"
        "from pyflink.datastream.functions import MapFunction\n"
        "import engine.datastream.functions as ours\n"
        "assert MapFunction is ours.MapFunction\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
