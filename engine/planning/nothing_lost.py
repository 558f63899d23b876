"""The promise of every run: what came in is planned or rejected, each exactly once, and readers see it so."""

from penstock.plans.errors import LostTopologiesError

_HINT = "this is a bug in Penstock: please report it with the input"


def require_nothing_lost(inputs: int, planned: int, rejected: int, planned_ids: int) -> None:
    """LostTopologiesError unless `inputs` is `planned` + `rejected`, and each planned one has its own key.

    In: how many topologies came in; the rows of the plan's tables `topologies` and `rejected`, which are what
    export, show and rejected list; how many different topology_ids are in `topologies`. A row of `rejected`
    may have the key of a planned topology (a name that comes twice), so nothing is ever taken out of
    `topologies` by the key of a rejected row.
    """
    if inputs != planned + rejected:
        raise LostTopologiesError(
            f"{inputs} topologies came in, but {planned} are planned and {rejected} rejected", _HINT
        )
    if planned_ids != planned:
        raise LostTopologiesError(
            f"{planned} topologies are planned, but only {planned_ids} different topology_ids",
            _HINT,
        )
