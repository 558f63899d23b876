"""A sweep from its spec to its results, as the command and the library run it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import configuration_directory, find_configuration
from penstock.engine.output.progress import Report
from penstock.engine.sweep.grid import Cell, cells_of
from penstock.engine.sweep.measure_cell import CellRequest
from penstock.engine.sweep.read_sweep_spec import read_sweep_spec, sweep_spec_of
from penstock.engine.sweep.run_sweep import Swept, run_sweep


class PreparedSweep(NamedTuple):
    """The cells of a spec, and how each is measured."""

    cells: list[Cell]
    request: CellRequest
    configuration: EffectiveConfiguration


def prepare_sweep(
    spec: str | Mapping[str, Any],
    config_dir: str | None,
    defines: Mapping[str, str],
    time_limit: float,
    depends: Sequence[str] = (),
) -> PreparedSweep:
    """A spec (the path of a file, or what it would hold) as cells.

    Raises InputError and ConfigurationError, with all that is wrong.
    """
    configuration = find_configuration(config_dir, dict(defines))
    path = spec if isinstance(spec, str) else "spec"
    read = read_sweep_spec(path) if isinstance(spec, str) else sweep_spec_of(spec, path)
    cells = cells_of(read, path, depends)
    named = None if config_dir is None else str(configuration_directory(config_dir).path.resolve())
    return PreparedSweep(
        cells, CellRequest({}, {}, None, "", named, dict(defines), time_limit), configuration
    )


def sweep_grid(
    prepared: PreparedSweep,
    out: str,
    report: Report,
    *,
    again: bool = False,
    anew: bool = False,
    timeout: float = 3600,
    master: str | None = None,
    spark: Any = None,
) -> Swept:
    """Measure what has no result yet (see run_sweep), here or on the Spark of `master` or `spark`."""
    if master is None and spark is None:
        from penstock.engine.sweep.measure_here import measure_here

        measure = measure_here(prepared.request, timeout)
    else:
        from penstock.engine.spark.session import any_session
        from penstock.engine.sweep.measure_on_spark import measure_on_spark

        conf = prepared.configuration.spark
        session = spark or any_session(master=master, conf=conf, app_name="penstock sweep")
        measure = measure_on_spark(session, prepared.request)
    return run_sweep(prepared.cells, out, measure, report, again, anew)
