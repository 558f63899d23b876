"""Shape `chain`: a source, one-input operators one after the other, a sink; all of it one chain."""

import polars as pl

from plans.generate.draws import draws
from plans.generate.fleet import ID, Fleet, default_parallelism, literal, numbered_uid, operators_of_units
from plans.generate.spec import Spec
from plans.vocabulary import Kind


def chain(spec: Spec) -> Fleet:
    """In every topology, operator k reads k - 1. `width` is not used."""
    node = pl.col(ID)
    first, last = node == 1, node == spec.operators
    columns = {
        "kind": pl.when(first)
        .then(literal(Kind.SOURCE))
        .when(last)
        .then(literal(Kind.SINK))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(first)
        .then(literal("Source"))
        .when(last)
        .then(literal("Sink"))
        .otherwise(pl.concat_str(literal("Map-"), node)),
        "inputs": pl.concat_list(node - 1).list.head(pl.when(first).then(0).otherwise(1)),
        "uid": numbered_uid(draws(spec.seed), spec),
    }

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        operators = units.select(operators_of_units(spec.operators))
        return operators.with_columns((pl.col("operator") + 1).alias(ID)).with_columns(**columns)

    return Fleet("chain", spec, spec.topologies * spec.operators, 1, rows, default_parallelism(spec))
