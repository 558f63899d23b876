"""Topologies that are drawn one by one as a spec file says."""

from collections.abc import Iterator

from penstock.engine.measure.generate.drawn_topologies import Topology
from penstock.plans.errors import InputError
from penstock.plans.generate.by_spec.draw_by_spec import Counts, draw_by_spec
from penstock.plans.generate.by_spec.fleet_spec import FleetSpec, read_fleet_spec
from penstock.plans.generate.fleet import Spec


def fleet_spec(path: str, topologies: int, seed: int) -> FleetSpec:
    """The spec of a file, for that many topologies. Raises InputError and ConfigurationError."""
    Spec(2, topologies, seed)
    try:
        return read_fleet_spec(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such spec file") from error


def topologies_by_spec(spec: FleetSpec, topologies: int, seed: int, counts: Counts) -> Iterator[Topology]:
    """Topologies drawn by a spec; `counts` counts what was drawn."""
    return (draw_by_spec(spec, seed, number, counts) for number in range(topologies))
