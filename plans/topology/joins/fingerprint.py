"""Canonical text (see plans.topology.fingerprint) as expressions of Spark."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.topology.fingerprint import CAPTURE_NOTES


def _string(value: Column) -> Column:
    return F.concat(F.octet_length(value).cast("string"), F.lit(":"), value)


def canonical_row() -> Column:
    """The canonical line of one TRANSFORMATIONS row, without its newline."""
    fields = []
    for field in spark_schema("transformations").fields[1:]:
        if field.name == "sink_topology":
            continue
        value, kind = F.col(field.name), field.dataType
        match kind:
            case StringType():
                text = _string(F.coalesce(value, F.lit(""))) if field.name == "name" else _string(value)
            case MapType():
                text = F.array_join(
                    F.transform(
                        F.sort_array(F.map_entries(value)),
                        lambda e: F.concat(e["key"], F.lit("="), e["value"].cast("string")),
                    ),
                    ",",
                )
            case StructType():
                sizes = [value[f.name].cast("string") for f in kind.fields[1:]]
                cores = F.floor(value["cpu_cores"] * 1e9 + 0.5).cast("long").cast("string")
                text = F.when(value.isNotNull(), F.concat_ws(",", cores, *sizes))
            case ArrayType(elementType=IntegerType()):
                text = F.array_join(value.cast("array<string>"), ",")
            case ArrayType():
                items = F.sort_array(value) if field.name == "slot_scope" else F.transform(value, _string)
                text = F.array_join(items, ",")
            case IntegerType() | LongType():
                text = value.cast("string")
            case _:
                raise TypeError(f"no canonical text for {field.name}")
        if isinstance(kind, MapType | ArrayType) and field.name != "inputs":
            text = F.when(F.size(value) > 0, text)  # lambdas are slow and such lists are mostly empty
        fields.append(F.coalesce(text, F.lit("")))
    return F.concat_ws("|", *fields, _string(F.col("sink_topology")))


def canonical_header() -> Column:
    """The canonical header of one TOPOLOGIES row of transformations, without its newline."""
    kept = F.filter(F.map_entries(F.col("config")), lambda e: ~F.startswith(e["key"], F.lit(CAPTURE_NOTES)))
    config = F.transform(kept, lambda e: F.concat(_string(e["key"]), F.lit("="), _string(e["value"])))
    return F.concat_ws(
        "|",
        F.lit("transformations"),
        _string(F.col("name")),
        F.col("parallelism").cast("string"),
        F.coalesce(F.col("max_parallelism").cast("string"), F.lit("")),
        F.col("chaining").cast("string"),
        F.array_join(F.sort_array(config), ","),
    )
