"""The Delta tables that the sink can write, and the form of their data files.

By Delta's protocol, a writer refuses a table with a writer feature that it does not know. deltalake commits
the sink's files, but checks constraints and columns only if it writes the files itself. The features that the
sink supports are therefore listed here, and each table is checked before its job runs, when the commit is
prepared, and when it is made.

Source: the Delta transaction log protocol, "Table Features", "Column Mapping", "Column Invariants".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from deltalake import DeltaTable, Schema

WRITABLE_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",  # readers take the added and removed files of a commit for its changes
        "checkConstraints",  # for tables without a constraint
        "columnMapping",
        "deletionVectors",
        "generatedColumns",  # for tables without such a column
        "invariants",  # for tables without an invariant
        "timestampNtz",
        "v2Checkpoint",
        "variantType",  # for tables without such a column
        "variantType-preview",
    }
)
"""Writer features of the tables that the sink writes."""

_LEGACY_FEATURES = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
"""Features by the lowest writer version of a protocol that implies them."""
_FEATURES_ARE_LISTED = 7

_CONSTRAINT = "delta.constraints."
_GENERATED = "delta.generationExpression"
_IDENTITY = "delta.identity.start"
_INVARIANT = "delta.invariants"
_DEFAULT = "CURRENT_DEFAULT"
_MAPPING_MODE = "delta.columnMapping.mode"
_MAPPING_READER = 2  #: the legacy version of the protocol
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_FIELD_ID = "delta.columnMapping.id"
_TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_TEXT_LENGTH = re.compile(r"(char|varchar)\((\d+)\)")

Json = Any


def require_writable(table: DeltaTable, folder: str, mode: str) -> None:
    """Raise ValueError, which names all reasons, unless the sink can write the table in this mode."""
    reasons = reasons_against(table, mode)
    if reasons:
        raise ValueError(
            f"the Delta table {folder} cannot be written by this sink, because it has {', '.join(reasons)}; "
            'Spark may be able to: stream.to_dataframe().write.format("delta")'
        )


def reasons_against(table: DeltaTable, mode: str, features: frozenset[str] = WRITABLE_FEATURES) -> list[str]:
    """Return the features, constraints and rules that forbid adding files to a table or replacing them.

    `mode`: overwrite, or any other for adding; `features`: the features that the writer supports.
    """
    protocol, configuration = table.protocol(), table.metadata().configuration
    required = set(protocol.writer_features or ())
    for version, implied in _LEGACY_FEATURES.items():
        if version <= protocol.min_writer_version < _FEATURES_ARE_LISTED:
            required |= set(implied)
    reasons = [f"the table feature {feature}" for feature in sorted(required - features)]
    if protocol.min_writer_version > _FEATURES_ARE_LISTED:
        reasons.append(f"writer version {protocol.min_writer_version}")
    reasons += [
        f"the CHECK constraint {name[len(_CONSTRAINT) :]!r}"
        for name in sorted(configuration)
        if name.lower().startswith(_CONSTRAINT)
    ]
    reasons += _reasons_of_mapping(table)
    for field in fields_of(table.schema()):
        reasons += _reasons_of_field(field)
    if mode == "overwrite" and _is_append_only(configuration):
        reasons.append("delta.appendOnly, which forbids overwriting")
    return reasons


def has_rules(properties: Mapping[str, Any], schema: str) -> bool:
    """Whether a table of writer version 2 limits its rows or commits; `schema` is its JSON in the log."""
    constrained = any(name.lower().startswith(_CONSTRAINT) for name in properties)
    return constrained or _is_append_only(properties) or _INVARIANT in schema


def _is_append_only(properties: Mapping[str, Any]) -> bool:
    return any(
        name.lower() == "delta.appendonly" and str(value).strip().lower() == "true"
        for name, value in properties.items()
    )


def mapping_mode(table: DeltaTable) -> str:
    """Return the mode of column mapping: none, name, id, or a value that readers do not know.

    It states whether columns have other names in files than for readers.
    """
    mode: str = table.metadata().configuration.get(_MAPPING_MODE, "none")
    return mode


def reasons_of_mode(table: DeltaTable) -> list[str]:
    """Return a reason against a mode of column mapping that some readers follow and others do not."""
    mode, protocol = mapping_mode(table), table.protocol()
    is_declared = protocol.min_reader_version == _MAPPING_READER or "columnMapping" in (
        protocol.writer_features or ()
    )
    if mode == "none" or (mode in ("name", "id") and is_declared):
        return []
    return [f"{_MAPPING_MODE}={mode}, which is unknown or not declared by the table's protocol"]


def _reasons_of_mapping(table: DeltaTable) -> list[str]:
    reasons, fields = reasons_of_mode(table), fields_of(table.schema())
    if mapping_mode(table) == "none" and any(
        _PHYSICAL_NAME in part["metadata"] for part in _parts({"fields": fields})
    ):
        reasons.append(f"names of column mapping without {_MAPPING_MODE}")
    return reasons


def _reasons_of_field(field: Json) -> Iterator[str]:
    name, metadata = field["name"], field["metadata"]
    for key, kind in ((_GENERATED, "generated"), (_IDENTITY, "identity"), (_INVARIANT, "invariant of")):
        if key in metadata:
            yield f"the {kind} column {name!r}"
    if any(_INVARIANT in part["metadata"] for part in _parts(field["type"])):
        yield f"an invariant within the column {name!r}"
    if holds_variant(field):
        yield f"the variant column {name!r}"
    if any(
        not part.get("nullable", True) or _TEXT_TYPE in part["metadata"] for part in _parts(field["type"])
    ):
        yield f"a NOT NULL, char or varchar within the column {name!r}"
    elif _TEXT_TYPE in metadata and _TEXT_LENGTH.fullmatch(metadata[_TEXT_TYPE]) is None:
        yield f"a char or varchar within the column {name!r}"
    elif not _may_hold_nulls(field["type"]):
        yield f"an array or map without nulls in the column {name!r}"


def _parts(data_type: Json) -> Iterator[Json]:
    """Yield the fields of all structs within a type."""
    if isinstance(data_type, dict):
        for field in data_type.get("fields", ()):
            yield field
            yield from _parts(field["type"])
        for key in ("elementType", "keyType", "valueType"):
            yield from _parts(data_type.get(key))


def holds_variant(field: Json) -> bool:
    """Whether a column has variants, at any depth."""
    return _holds(field["type"], "variant")


def _holds(data_type: Json, wanted: str) -> bool:
    if not isinstance(data_type, dict):
        return bool(data_type == wanted)
    inner = [field["type"] for field in data_type.get("fields", ())]
    inner += [data_type[key] for key in ("elementType", "keyType", "valueType") if key in data_type]
    return any(_holds(part, wanted) for part in inner)


def _may_hold_nulls(data_type: Json) -> bool:
    if not isinstance(data_type, dict):
        return True
    if not data_type.get("containsNull", True) or not data_type.get("valueContainsNull", True):
        return False
    inner = [field["type"] for field in data_type.get("fields", ())]
    inner += [data_type[key] for key in ("elementType", "keyType", "valueType") if key in data_type]
    return all(map(_may_hold_nulls, inner))


def fields_of(schema: Schema) -> list[Json]:
    """Return the top-level fields of a table, in the form of its log."""
    fields: list[Json] = json.loads(schema.to_json())["fields"]
    return fields


def staged_schema(table: DeltaTable | None, columns: pa.Schema) -> str:
    """Return the fields of `columns`, in order, with the table's names and rules for them, as JSON.

    Raises ValueError for names that a new table cannot have.
    """
    if table is None:
        _require_names(columns.names)
    own = fields_of(Schema.from_arrow(columns))
    if table is None:
        return json.dumps({"type": "struct", "fields": own})
    theirs = {field["name"]: field for field in fields_of(table.schema())}
    fields = []
    for field in own:
        table_field = theirs.get(field["name"]) or field
        is_same = _type_text(table_field["type"]) == _type_text(field["type"])
        fields.append(table_field if is_same else field)
    return json.dumps({"type": "struct", "fields": fields})


def _require_names(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    if alike := [name for name in names if lowered.count(name.lower()) > 1]:
        raise ValueError(f"columns of a Delta table must differ in more than case, got {', '.join(alike)}")


def require_columns(table: DeltaTable, folder: str, staged: str, partition_by: tuple[str, ...]) -> None:
    """Raise ValueError unless files of the fields `staged` (`staged_schema`) can become part of the table.

    Other columns of the table are null in these files; they must be nullable, without a default.
    """
    partition_columns = tuple(table.metadata().partition_columns)
    if partition_columns != partition_by:
        raise ValueError(
            f"the Delta table {folder} is partitioned by {list(partition_columns)}, "
            f"not by {list(partition_by)}"
        )
    theirs = {field["name"]: field for field in fields_of(table.schema())}
    ours = {field["name"]: field for field in json.loads(staged)["fields"]}
    further = [
        field
        for name, field in theirs.items()
        if name not in ours and (not field["nullable"] or _DEFAULT in field["metadata"])
    ]
    if further or any(
        name not in theirs or _identity(field) != _identity(theirs[name]) for name, field in ours.items()
    ):
        raise ValueError(
            f"the Delta table {folder} has the columns {_described(theirs)}, "
            f"the sink's are {_described(ours)}"
        )
    stricter = [
        name
        for name, field in ours.items()
        if (field["nullable"] and not theirs[name]["nullable"])
        or field["metadata"].get(_TEXT_TYPE) != theirs[name]["metadata"].get(_TEXT_TYPE)
    ]
    if stricter:
        raise ValueError(
            f"NOT NULL or the length of {', '.join(map(repr, stricter))} in the Delta table {folder} "
            "was changed after the job had started"
        )


def _identity(field: Json) -> Json:
    """Return the parts that must be equal in the files and in the table: types, and names in files."""
    return _physical_name(field), _identity_of_type(field["type"])


def _identity_of_type(data_type: Json) -> Json:
    if not isinstance(data_type, dict):
        return data_type
    return {
        key: [(part["name"], _identity(part)) for part in value]
        if key == "fields"
        else _identity_of_type(value)
        for key, value in data_type.items()
        if key not in ("containsNull", "valueContainsNull")
    }


def _described(fields: Mapping[str, Json]) -> str:
    parts = []
    for name, field in fields.items():
        rules = "" if field["nullable"] else " NOT NULL"
        stored = _physical_name(field)
        parts.append(f"{name} {_type_text(field['type'])}{rules}" + (f" ({stored})" * (stored != name)))
    return f"[{', '.join(parts)}]"


def _type_text(data_type: Json) -> str:
    if not isinstance(data_type, dict):
        return str(data_type)
    if data_type["type"] == "struct":
        inner = ", ".join(f"{part['name']} {_type_text(part['type'])}" for part in data_type["fields"])
        return f"struct<{inner}>"
    inner = ", ".join(
        _type_text(data_type[key]) for key in ("elementType", "keyType", "valueType") if key in data_type
    )
    return f"{data_type['type']}<{inner}>"


def _physical_name(field: Json) -> str:
    name: str = field["metadata"].get(_PHYSICAL_NAME, field["name"])
    return name


@dataclass(frozen=True)
class TextLength:
    """The length of a `varchar` or `char` column, in characters."""

    kind: str
    length: int

    def fit(self, column: pa.Array, name: str, folder: str) -> pa.Array:
        """Return texts as Spark stores them: without spaces beyond the length, `char` padded to it.

        Raises ValueError for longer texts. Source: CharVarcharCodegenUtils of Spark.
        """
        long = pc.greater(pc.utf8_length(column), self.length)
        if pc.any(long).as_py():
            cut = pc.utf8_slice_codeunits(column, 0, self.length)
            rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(column, self.length), " ")
            if pc.any(pc.not_equal(rest, "")).as_py():
                raise ValueError(
                    f"values of the column {name!r} of the Delta table {folder} must have at most "
                    f"{self.length} characters ({self.kind}({self.length})), got longer ones"
                )
            column = pc.if_else(long, cut, column)
        return pc.utf8_rpad(column, self.length, " ") if self.kind == "char" else column


class StagedColumns:
    """The columns of data files, from the JSON of `staged_schema`, with their names in files."""

    def __init__(self, staged: str, columns: pa.Schema, partition_by: tuple[str, ...], folder: str) -> None:
        self._fields: list[Json] = json.loads(staged)["fields"]
        self._columns, self._folder = columns, folder
        self.partition_by = tuple(
            _physical_name(field) for name in partition_by for field in self._fields if field["name"] == name
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """Return all columns."""
        return _stored_schema(self._fields, self._columns)

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of `schema`, its texts padded. Raises ValueError if it breaks a rule of a column."""
        columns = batch.columns
        for at, field in enumerate(self._fields):
            if (length := _TEXT_LENGTH.fullmatch(field["metadata"].get(_TEXT_TYPE, ""))) is not None:
                columns[at] = TextLength(length[1], int(length[2])).fit(
                    columns[at], field["name"], self._folder
                )
            if not field["nullable"] and self._has_null(columns[at], batch.schema.names[at]):
                raise ValueError(
                    f"the column {field['name']!r} of the Delta table {self._folder} is NOT NULL, got a null"
                )
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _has_null(self, column: pa.Array, name: str) -> bool:
        if column.null_count:
            return True
        # Delta's log cannot distinguish a partition of empty texts from a partition of nulls
        return (
            name in self.partition_by
            and kinds.is_string(column.type)
            and bool(pc.any(pc.equal(column, "")).as_py())
        )


def stored_columns(table: DeltaTable, columns: pa.Schema) -> pa.Schema:
    """Return the columns of a table, `columns` for readers, with their names and ids in its files."""
    fields = fields_of(table.schema())
    if mapping_mode(table) == "none":
        for part in _parts({"fields": fields}):
            part["metadata"].pop(_PHYSICAL_NAME, None)
    return _stored_schema(fields, columns)


def _stored_schema(fields: list[Json], columns: pa.Schema) -> pa.Schema:
    return pa.schema([_physical_field(*pair) for pair in zip(fields, columns, strict=True)])


def _physical_field(field: Json, column: pa.Field) -> pa.Field:
    number = field["metadata"].get(_FIELD_ID)
    metadata = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.field(_physical_name(field), _physical_type(field["type"], column.type), metadata=metadata)


def _physical_type(data_type: Json, column_type: pa.DataType) -> pa.DataType:
    if kinds.is_struct(column_type):
        pairs = zip(data_type["fields"], column_type, strict=True)
        return pa.struct([_physical_field(*pair) for pair in pairs])
    if kinds.is_list(column_type):
        return pa.list_(_physical_type(data_type["elementType"], column_type.value_type))
    if kinds.is_map(column_type):
        return pa.map_(
            _physical_type(data_type["keyType"], column_type.key_type),
            _physical_type(data_type["valueType"], column_type.item_type),
        )
    return column_type
