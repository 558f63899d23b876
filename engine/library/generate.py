"""Generate topologies by a library call."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from penstock.engine.library.check_arguments import path, require_session, share, text, whole_number
from penstock.engine.library.given_topologies import is_spark_frame
from penstock.engine.library.planned_tables import Plan, dataframe_of_table, plan_tables
from penstock.engine.measure.draw_after import ENDINGS, topologies_by_trace, workloads
from penstock.engine.output.pieces import html_table
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.generate.draw_by_trace import TRACES
from penstock.plans.generate.fleet import fleet_tables
from penstock.plans.generate.layered import WORKLOADS, fleet_of_shape
from penstock.plans.vocabulary import Layer, ShapeName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["generate"]

_SHOWN = 10


class Generated(NamedTuple):
    """Two frames, as `plan` takes them.

    Attributes:
        topologies: An Arrow table or DataFrame with one row per topology (docs/tables.md).
        transformations: One row per transformation.
    """

    topologies: Any
    transformations: Any

    def write(self, to: str | os.PathLike[str]) -> None:
        """Write topology lines.

        Args:
            to: A path that ends in .jsonl or .jsonl.gz.

        Raises:
            ConfigurationError: The path ends otherwise, or only Spark has the tables.
            MachineError: No space, or no permission.

        Examples:
            >>> penstock.generate("chain", 2).write("chains.jsonl")
            >>> penstock.plan("chains.jsonl").planned
            2
        """
        from pathlib import Path

        from penstock.engine.output.write_lines import write_texts
        from penstock.plans.plan_json.to_topology_lines import to_topology_lines

        target = os.fspath(to)
        if not target.endswith((".jsonl", ".jsonl.gz")):
            raise ConfigurationError(f"to must be FILE.jsonl or FILE.jsonl.gz, got {target!r}")
        if is_spark_frame(self.topologies):
            raise ConfigurationError(
                "write() needs Arrow tables, got tables of Spark", "use Spark's own writers"
            )
        tables = {name: from_arrow(table) for name, table in self._asdict().items()}
        write_texts(to_topology_lines(tables)["line"], Path(target))

    def __repr__(self) -> str:
        if is_spark_frame(self.topologies):
            return "<penstock.Generated: DataFrames of Spark>"
        return (
            f"<penstock.Generated: {self.topologies.num_rows:,} topologies, "
            f"{self.transformations.num_rows:,} transformations>"
        )

    def _repr_html_(self) -> str:
        if is_spark_frame(self.topologies):
            return html_table("DataFrames of Spark", ("table",), [("topologies",), ("transformations",)])
        names = self.topologies.slice(0, _SHOWN).select(["topology_id", "name"]).to_pylist()
        counts = from_arrow(self.transformations.select(["topology_id"])).group_by("topology_id").len()
        sizes = dict(counts.iter_rows())
        rows = [(row["name"], f"{sizes.get(row['topology_id'], 0):,}") for row in names]
        return html_table(repr(self)[10:-1], ("topology", "transformations"), rows)


def generate(
    shape: ShapeName | str | os.PathLike[str] | None = None,
    topologies: int = 1,
    *,
    operators: int | None = None,
    seed: int = 0,
    parallelism: int | None = None,
    share_of_uids: float | None = None,
    width: int | None = None,
    with_refusals: bool = False,
    like: Any = None,
    spark: "SparkSession | None" = None,
) -> Generated:
    """Generate synthetic topologies, the same for the same seed on any machine.

    Args:
        shape: chain, diamond, wide, layered, random or giant; "workloads" (published benchmarks with costs);
            "alibaba-2018" (jobs of the sizes and shapes of that trace); or the path of a spec file (.yaml).
        topologies: How many, 1 or more; default 1.
        operators: Operators in one topology, 1 or more; default by shape: random 12 on average, layered 400,
            chain 60, diamond 62, wide 100, giant 10,000.
        seed: 0 or more; default 0.
        parallelism: Of all operators, 1 to 32768; default 4, and drawn per topology for random.
        share_of_uids: Share of operators with a uid, 0 to 1; default 0, and 0.165 for random.
        width: Operators side by side, for layered, diamond and wide.
        with_refusals: For random: a few topologies in a hundred are of the kind that Flink refuses, for
            tests.
        like: In place of `shape`: what `plan` or `read_plan` returned, a store, a topology file, or
            "captured", "sql" or "workloads". Topologies are drawn after those.
        spark: A SparkSession, whose workers make the rows when they are read.

    Returns:
        Generated: Two frames (topologies, transformations), as `plan` takes them.

    Raises:
        ConfigurationError: An argument is invalid.
        InputError: A spec or file cannot be read.
        StoreError: The store `like` cannot be read.

    Examples:
        >>> generated = penstock.generate("chain", 2, operators=3)
        >>> generated.topologies.num_rows, generated.transformations.num_rows
        (2, 6)
        >>> penstock.plan(generated).planned
        2
    """
    count, first = whole_number("topologies", topologies), whole_number("seed", seed, None)
    if spark is not None:
        require_session(spark)
    parallelism = None if parallelism is None else whole_number("parallelism", parallelism, None)
    operators = None if operators is None else whole_number("operators", operators, None)
    width = None if width is None else whole_number("width", width, None)
    share_of_uids = None if share_of_uids is None else share("share_of_uids", share_of_uids)
    shape_options = {
        "operators": operators is not None,
        "share_of_uids": share_of_uids is not None,
        "width": width is not None,
        "with_refusals": bool(with_refusals),
    }
    if like is not None:
        _require_none(
            {"shape": shape is not None, "parallelism": parallelism is not None, **shape_options}, "like"
        )
        return _for_session(_like(like, count, first), spark)
    name = os.fspath(shape) if isinstance(shape, os.PathLike) else text("shape", shape, "layered")
    if name == WORKLOADS:
        _require_none({"topologies": count != 1, "seed": first != 0, **shape_options}, name)
        return _for_session(_generated_from_dicts(workloads(parallelism)), spark)
    if name in TRACES:
        _require_none(shape_options, name)
        return _for_session(
            _generated_from_dicts(list(topologies_by_trace(name, count, first, parallelism))), spark
        )
    if name.endswith(ENDINGS):
        _require_none({"parallelism": parallelism is not None, **shape_options}, "a spec file")
        from penstock.engine.measure.draw_after import fleet_spec, topologies_by_spec
        from penstock.plans.generate.draw_by_spec import no_counts

        spec = fleet_spec(name, count, first)
        return _for_session(
            _generated_from_dicts(list(topologies_by_spec(spec, count, first, no_counts()))), spark
        )
    fleet = fleet_of_shape(
        name, count, operators, first, parallelism, share_of_uids, width, bool(with_refusals), "shape"
    )
    if spark is not None:
        from penstock.engine.spark.session import use_this_python
        from penstock.plans.generate.generate_on_spark import generate_on_spark

        return Generated(*generate_on_spark(use_this_python(spark), fleet))
    return Generated(*fleet_tables(fleet))


def _require_none(options: dict[str, bool], not_with: str) -> None:
    if refused := [name for name, is_given in options.items() if is_given]:
        raise ConfigurationError(f"{', '.join(refused)} cannot be combined with {not_with}")


def _generated_from_dicts(topologies: list[dict[str, Any]]) -> Generated:
    from penstock.engine.planning.plan_in_process import read_in_process

    read = read_in_process(topologies)
    return Generated(*(to_arrow(getattr(read, name), name) for name in Generated._fields))


def _like(like: Any, topologies: int, seed: int) -> Generated:
    from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
    from penstock.engine.library.open_source import open_source
    from penstock.engine.library.planned_tables import Store
    from penstock.engine.measure.draw_after import draw_after, model_fleet, source_of_fleet

    if isinstance(like, Plan):
        model = model_fleet(plan_tables(like, "like"), like.source)
    else:
        place = like.path if isinstance(like, Store) else path("like", like)
        with open_source(source_of_fleet(place), EffectiveConfiguration, until=Layer.JOB_GRAPH) as opened:
            model = model_fleet(opened, place)
    parts = [part.tables for part in draw_after(model, topologies, seed)]
    return Generated(
        *(to_arrow(pl.concat([part[name] for part in parts]), name) for name in Generated._fields)
    )


def _for_session(generated: Generated, spark: "SparkSession | None") -> Generated:
    if spark is None:
        return generated
    return Generated(*(dataframe_of_table(spark, name, table) for name, table in generated._asdict().items()))
