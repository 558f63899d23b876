"""Shape `wide`: sources with large fan-out, branches side by side, unions into sinks."""

import polars as pl

from plans.generate.draws import draws
from plans.generate.fleet import ID, Fleet, default_parallelism, literal, numbered_uid, operators_of_units
from plans.generate.spec import Spec
from plans.vocabulary import Kind

DEFAULT_WIDTH = 8


def wide(spec: Spec) -> Fleet:
    """Groups of `width` branches; each group's union goes into a sink.

    `width` (default 8): branches of a group. There are as many groups as fit `operators` (a source, the
    branches and a sink each), at least one, and one source for each group; branch b of group g reads the
    source (g + b) modulo the groups, so that sources and groups are linked all over.
    """
    width = spec.width or DEFAULT_WIDTH
    groups = max(1, spec.operators // (width + 2))
    group_size = width + 2
    size = groups + groups * group_size
    node = pl.col(ID)
    source = node <= groups
    after_sources = node - groups - 1
    group, position = after_sources // group_size, after_sources % group_size
    union, sink = ~source & (position == width), ~source & (position == width + 1)
    first_input = (
        pl.when(union).then(node - width).when(sink).then(node - 1).otherwise((group + position) % groups + 1)
    )
    count = pl.when(source).then(0).when(union).then(width).otherwise(1)
    columns = {
        "kind": pl.when(source)
        .then(literal(Kind.SOURCE))
        .when(union)
        .then(literal(Kind.UNION))
        .when(sink)
        .then(literal(Kind.SINK))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(source)
        .then(pl.concat_str(literal("Source-"), node - 1))
        .when(union)
        .then(literal(""))
        .when(sink)
        .then(pl.concat_str(literal("Sink-"), group))
        .otherwise(pl.concat_str(literal("Branch-"), group, literal("-"), position)),
        "inputs": pl.int_ranges(first_input, first_input + count),
        "uid": pl.when(~union).then(numbered_uid(draws(spec.seed), spec)),
    }

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        operators = units.select(operators_of_units(size))
        return operators.with_columns((pl.col("operator") + 1).alias(ID)).with_columns(**columns)

    return Fleet("wide", spec, spec.topologies * size, 1, rows, default_parallelism(spec))
