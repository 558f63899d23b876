"""Plans Flink-style streaming topologies exactly as Apache Flink does, and runs PyFlink scripts on Spark.

    import penstock

    planned = penstock.plan("topologies.jsonl")
    planned.tables["job_vertices"]

This module is the public API, and its names are all of it. Each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.library.draw import Drawing as Drawing
    from engine.library.draw import draw as draw
    from engine.library.import_graph import import_graph as import_graph
    from engine.library.open_store import open_store as open_store
    from engine.library.open_store import read_plan as read_plan
    from engine.library.plan import plan as plan
    from engine.library.planned_tables import Plan as Plan
    from engine.library.run import run as run
    from engine.library.transform import transform as transform
    from engine.planning.choose_planner import Planner as Planner
    from penstock import errors as errors
    from plans.custom_planners.decisions import decides as decides
    from plans.errors import ConfigurationError as ConfigurationError
    from plans.errors import InputError as InputError
    from plans.errors import LostTopologiesError as LostTopologiesError
    from plans.errors import MachineError as MachineError
    from plans.errors import NotEnoughMemoryError as NotEnoughMemoryError
    from plans.errors import PenstockError as PenstockError
    from plans.errors import SchemaError as SchemaError
    from plans.errors import StoreError as StoreError
    from plans.vocabulary import Layer as Layer

# Type checkers read the imports above; a test compares the two.
_MODULES = {
    "Drawing": "engine.library.draw",
    "Layer": "plans.vocabulary",
    "Plan": "engine.library.planned_tables",
    "Planner": "engine.planning.choose_planner",
    "decides": "plans.custom_planners.decisions",
    "draw": "engine.library.draw",
    "import_graph": "engine.library.import_graph",
    "open_store": "engine.library.open_store",
    "plan": "engine.library.plan",
    "read_plan": "engine.library.open_store",
    "run": "engine.library.run",
    "transform": "engine.library.transform",
    **dict.fromkeys(
        (
            "ConfigurationError",
            "InputError",
            "LostTopologiesError",
            "MachineError",
            "NotEnoughMemoryError",
            "PenstockError",
            "SchemaError",
            "StoreError",
        ),
        "plans.errors",
    ),
}

__all__ = [*_MODULES, "errors"]  # noqa: PLE0604 - the names of the one list


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("penstock.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}; it has {', '.join(__all__)}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
