"""Names, parameters and defaults of what PyFlink 2.3 keeps in pyflink.common and in some modules beside."""

import inspect
import json
import pickle
from enum import Enum
from pathlib import Path

import pytest

from penstock.engine.pyflink import common
from penstock.engine.pyflink_names.modules import UnsupportedNameError, penstock_module
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.row import RowKind
from penstock.operators.common.typeinfo import RowTypeInfo, Types

HERE = Path(__file__).parent
SIGNATURES = json.loads((HERE / "pyflink_signatures.json").read_text(encoding="utf-8"))
API = (HERE.parents[2] / "pyflink" / "api.txt").read_text(encoding="utf-8").splitlines()
OWN_PARAMETERS = {
    "common.completable_future:CompletableFuture.__init__",  # a Python future in place of Java's
    # the defaults of PyFlink's end in a TypeError
    "common.restart_strategy:RestartStrategies.FailureRateRestartStrategyConfiguration.__init__",
    "common.restart_strategy:RestartStrategies.FixedDelayRestartStrategyConfiguration.__init__",
}


def found(place):
    """The member at "module:class.name", as it stands in its class."""
    module, _, path = place.partition(":")
    owner = penstock_module(f"pyflink.{module}")
    *classes, name = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    member = inspect.getattr_static(owner, name)
    return getattr(member, "__func__", member)


@pytest.mark.parametrize("place", SIGNATURES)
def test_members(place):
    expected, member = SIGNATURES[place], found(place)
    if isinstance(member, Enum):
        assert member.value == expected
    elif member is not object.__init__ and place not in OWN_PARAMETERS:
        parameters = [
            [one.name, one.kind.name, None if one.default is one.empty else repr(one.default)]
            for one in inspect.signature(member).parameters.values()
            if one.name not in ("self", "cls") and not one.name.startswith("j_")
        ]
        assert parameters == expected


@pytest.mark.parametrize("line", [line for line in API if line.startswith("pyflink.common")])
def test_the_list_of_names(line):
    place, _, names = line.partition(":")
    module, owner = place.split()
    holder = getattr(penstock_module(module), owner)
    for name in names.split():
        member = holder
        for part in name.split("."):
            member = getattr(member, part)
        assert callable(member) or not inspect.isroutine(member)


def test_the_list_is_the_one_that_was_given():
    assert sum(line.startswith("pyflink.common") for line in API) == 50
    assert len(SIGNATURES) > 300


def test_everything_that_is_named_is_there():
    for name in common.__all__:
        assert getattr(common, name).__name__ == name


def test_names_that_are_refused():
    with pytest.raises(UnsupportedNameError, match=r"pyflink\.common\.AvroRowSerializationSchema") as caught:
        from penstock.engine.pyflink.common import AvroRowSerializationSchema  # noqa: F401
    assert str(caught.value).startswith("PyFlink's pyflink.common.AvroRowSerializationSchema is not")
    assert "penstock info --api" in str(caught.value)
    assert "README" in str(caught.value)
    with pytest.raises(ImportError, match="cannot import name"):
        from penstock.engine.pyflink.common import Nonsense  # noqa: F401


def test_schemas_of_formats_at_their_old_place():
    from penstock.engine.pyflink.common import CsvRowDeserializationSchema, JsonRowSerializationSchema
    from penstock.operators.formats import csv_schemas, json_values

    assert CsvRowDeserializationSchema is csv_schemas.CsvRowDeserializationSchema
    assert JsonRowSerializationSchema is json_values.JsonRowSerializationSchema


def test_classes_are_those_of_the_workers():
    from penstock.operators.common.row import RowKind as workers

    assert RowKind is workers


def test_output_tags():
    assert OutputTag("a").type_info == Types.PICKLED_BYTE_ARRAY()
    assert OutputTag("a", Types.INT()).type_info == Types.INT()
    assert OutputTag("a", [Types.INT()]).type_info == RowTypeInfo([Types.INT()])
    again = pickle.loads(pickle.dumps(OutputTag("a", Types.INT())))
    assert (again.tag_id, again.type_info) == ("a", Types.INT())
    with pytest.raises(ValueError, match="empty"):
        OutputTag("")
    with pytest.raises(TypeError, match="got 5"):
        OutputTag("a", 5)
    with pytest.raises(NoJavaError):
        OutputTag("a").get_java_output_tag()
