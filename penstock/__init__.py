"""Plans Flink-style streaming topologies exactly as Apache Flink does, and runs PyFlink scripts on Spark.

    import penstock

    planned = penstock.plan("topologies.jsonl")
    planned.tables["job_vertices"]

This module is the public API, and its names are all of it. Each is imported when it is first used. Paths
such as docs/tables.md, in descriptions and messages, are pages of the manual in the source repository.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import errors as errors
    from penstock.engine.library.bench import bench as bench
    from penstock.engine.library.draw import Drawing as Drawing
    from penstock.engine.library.draw import draw as draw
    from penstock.engine.library.generate import generate as generate
    from penstock.engine.library.given_topologies import import_graph as import_graph
    from penstock.engine.library.open_store import open_store as open_store
    from penstock.engine.library.open_store import read_plan as read_plan
    from penstock.engine.library.plan import plan as plan
    from penstock.engine.library.planned_tables import Plan as Plan
    from penstock.engine.library.planned_tables import check as check
    from penstock.engine.library.run import run as run
    from penstock.engine.library.run import transform as transform
    from penstock.engine.library.sides_to_compare import diff as diff
    from penstock.engine.library.stream import BatchFunction as BatchFunction
    from penstock.engine.library.stream import State as State
    from penstock.engine.library.stream import foreach_batch as foreach_batch
    from penstock.engine.library.stream import open_state as open_state
    from penstock.engine.library.sweep import sweep as sweep
    from penstock.engine.planning.changed_metrics import Change as Change
    from penstock.engine.planning.changed_metrics import ChangedMetrics as ChangedMetrics
    from penstock.engine.planning.planner_program import planner_program as planner_program
    from penstock.engine.planning.planners import Planner as Planner
    from penstock.plans.custom_planners.decisions import decides as decides
    from penstock.plans.errors import BrokenInvariantError as BrokenInvariantError
    from penstock.plans.errors import ConfigurationError as ConfigurationError
    from penstock.plans.errors import InputError as InputError
    from penstock.plans.errors import LostTopologiesError as LostTopologiesError
    from penstock.plans.errors import MachineError as MachineError
    from penstock.plans.errors import NotEnoughMemoryError as NotEnoughMemoryError
    from penstock.plans.errors import PenstockError as PenstockError
    from penstock.plans.errors import SchemaError as SchemaError
    from penstock.plans.errors import StoreError as StoreError
    from penstock.plans.vocabulary import Layer as Layer

# Type checkers read the imports above. `make docs` writes names in `__all__` of engine/library to both.
_MODULES = {
    "BatchFunction": "penstock.engine.library.stream",
    "Change": "penstock.engine.planning.changed_metrics",
    "ChangedMetrics": "penstock.engine.planning.changed_metrics",
    "Drawing": "penstock.engine.library.draw",
    "Layer": "penstock.plans.vocabulary",
    "Plan": "penstock.engine.library.planned_tables",
    "Planner": "penstock.engine.planning.planners",
    "State": "penstock.engine.library.stream",
    "bench": "penstock.engine.library.bench",
    "check": "penstock.engine.library.planned_tables",
    "decides": "penstock.plans.custom_planners.decisions",
    "diff": "penstock.engine.library.sides_to_compare",
    "draw": "penstock.engine.library.draw",
    "foreach_batch": "penstock.engine.library.stream",
    "generate": "penstock.engine.library.generate",
    "import_graph": "penstock.engine.library.given_topologies",
    "open_state": "penstock.engine.library.stream",
    "open_store": "penstock.engine.library.open_store",
    "plan": "penstock.engine.library.plan",
    "planner_program": "penstock.engine.planning.planner_program",
    "read_plan": "penstock.engine.library.open_store",
    "run": "penstock.engine.library.run",
    "sweep": "penstock.engine.library.sweep",
    "transform": "penstock.engine.library.run",
    **dict.fromkeys(
        (
            "BrokenInvariantError",
            "ConfigurationError",
            "InputError",
            "LostTopologiesError",
            "MachineError",
            "NotEnoughMemoryError",
            "PenstockError",
            "SchemaError",
            "StoreError",
        ),
        "penstock.plans.errors",
    ),
}

__all__ = [*_MODULES, "errors"]  # noqa: PLE0604 - the names of the one list


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("penstock.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}; it has {', '.join(__all__)}")
    public = getattr(import_module(_MODULES[name]), name)
    globals()[name] = public
    return public


def __dir__() -> list[str]:
    return list(__all__)
