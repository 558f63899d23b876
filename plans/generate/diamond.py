"""Shape `diamond`: fan out to `width` branches, join them, and again."""

import polars as pl

from plans.errors import ConfigurationError
from plans.generate.draws import draws
from plans.generate.fleet import ID, Fleet, default_parallelism, literal, numbered_uid, operators_of_units
from plans.generate.spec import Spec
from plans.vocabulary import Kind

DEFAULT_WIDTH = 2


def diamond(spec: Spec) -> Fleet:
    """Source, stages of `width` branches and their join, sink.

    `width` (default 2): branches of a stage, 2 or more. Two branches meet in a two-input operator, more in a
    multiple-input one. The join of a stage is what the next stage fans out from. A topology has as many whole
    stages as fit `operators`, at least one. Raises ConfigurationError for a width below 2.
    """
    width = spec.width or DEFAULT_WIDTH
    if width < 2:
        raise ConfigurationError(f"width: found {width}, allowed 2 or more branches for the shape diamond")
    stage_size = width + 1
    stages = max(1, (spec.operators - 2) // stage_size)
    sink_id = 2 + stages * stage_size
    node = pl.col(ID)
    first, last = node == 1, node == sink_id
    stage, position = (node - 2) // stage_size, (node - 2) % stage_size
    join = position == width
    fan_out = stage * stage_size + 1
    columns = {
        "kind": pl.when(first)
        .then(literal(Kind.SOURCE))
        .when(last)
        .then(literal(Kind.SINK))
        .when(join)
        .then(literal(Kind.TWO_INPUT if width == 2 else Kind.MULTI_INPUT))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(first)
        .then(literal("Source"))
        .when(last)
        .then(literal("Sink"))
        .when(join)
        .then(pl.concat_str(literal("Join-"), stage))
        .otherwise(pl.concat_str(literal("Branch-"), stage, literal("-"), position)),
        "inputs": _inputs(first, last, join, fan_out, width),
        "uid": numbered_uid(draws(spec.seed), spec),
    }

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        operators = units.select(operators_of_units(sink_id))
        return operators.with_columns((pl.col("operator") + 1).alias(ID)).with_columns(**columns)

    return Fleet("diamond", spec, spec.topologies * sink_id, 1, rows, default_parallelism(spec))


def _inputs(first: pl.Expr, last: pl.Expr, join: pl.Expr, fan_out: pl.Expr, width: int) -> pl.Expr:
    start = pl.when(first | last).then(pl.col(ID) - 1).when(join).then(fan_out + 1).otherwise(fan_out)
    count = pl.when(first).then(0).when(join & ~last).then(width).otherwise(1)
    return pl.int_ranges(start, start + count)
