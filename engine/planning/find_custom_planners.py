"""Find custom planners, which are functions named as package.module:function or by entry point."""

import importlib
import importlib.util
import inspect
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import chdir, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.planning.planner_process import RemoteFunction, process_of
from penstock.engine.planning.planner_program import PREFIX, PlannerProgram, program_named
from penstock.plans.custom_planners.decisions import ANSWERS, ATTRIBUTE, Decision
from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.vocabulary import Layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GROUP = "penstock.planners"
"""The group of entry points whose names --planner accepts."""

COSTS = "operator_costs"
_LAYERS = {table: layer for layer, tables in LAYER_TABLES.items() for table in tables}


class CustomPlanner(NamedTuple):
    """A function that decides in place of one of Flink's rules.

    `reads` maps its parameters (names of tables) to whether they are Arrow tables. `layer` is the last layer
    of Flink's plan that it needs.
    """

    name: str
    decision: Decision
    function: Callable[..., Any]
    reads: dict[str, bool]
    layer: Layer


def names_custom_planner(name: str) -> bool:
    """Return whether --planner NAME is a custom planner."""
    return ":" in name or bool(entry_points(group=GROUP, name=name))


def find_custom_planners(planner: Any) -> list[CustomPlanner]:
    """Return the functions of a planner, in the order in which their decisions take effect.

    `planner`: its name, a function marked by penstock.decides, or a tuple or list of such functions with
    different decisions. Modules are searched in the working folder, too. Functions of a planner given by name
    are loaded and called in a process of their own (see answer_planner_calls), except Penstock's and
    `__main__`'s. Raises ConfigurationError.
    """
    if isinstance(planner, str) and not _is_loaded_here(planner):
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        functions = process_of(planner).greeting["functions"]
        return [
            CustomPlanner(
                planner,
                Decision(described["decision"]),
                RemoteFunction(planner, place),
                described["reads"],
                Layer(described["layer"]),
            )
            for place, described in enumerate(functions)
        ]
    return find_planners_here(planner)


def _is_loaded_here(name: str) -> bool:
    return name.startswith(PREFIX) or name.partition(":")[0].partition(".")[0] in ("penstock", "__main__")


def find_planners_here(planner: Any) -> list[CustomPlanner]:
    """Return the functions of a planner like find_custom_planners, loaded in this process."""
    decided, name = (
        (_load(planner), planner) if isinstance(planner, str) else (planner, name_of_planner(planner))
    )
    functions = list(decided) if isinstance(decided, tuple | list) else [decided]
    custom_planners = [_custom_planner(name, function) for function in functions]
    decisions = [custom_planner.decision for custom_planner in custom_planners]
    if not custom_planners or len(set(decisions)) < len(decisions):
        raise ConfigurationError(f"--planner {name}: decisions must be given once each, got "
                                     f"{', '.join(decisions) or 'none'}")  # fmt: skip
    return sorted(custom_planners, key=lambda custom_planner: list(Decision).index(custom_planner.decision))


def name_of_planner(planner: Any) -> str:
    """Return a planner's name, or module:function of each of its functions."""
    if isinstance(planner, str):
        return planner
    functions = planner if isinstance(planner, tuple | list) else [planner]
    return "+".join(
        function.name
        if isinstance(function, PlannerProgram)
        else f"{getattr(function, '__module__', None) or type(function).__module__}:"
        f"{getattr(function, '__qualname__', None) or type(function).__qualname__}"
        for function in functions
    )


def importable_name(planner: Any, argument: str) -> str:
    """Return the name under which other processes import a planner, for a function module:function.

    Raises ConfigurationError if the module has no such function.
    """
    if isinstance(planner, str):
        return planner
    name = name_of_planner(planner)
    module, _, attribute = name.partition(":")
    resolved: Any = None if module == "__main__" else sys.modules.get(module)
    for part in attribute.split("."):
        resolved = getattr(resolved, part, None)
    if resolved is not planner:
        raise ConfigurationError(
            f"{argument}: other processes cannot import {name}",
            'put the function into a module, and give its name as "module:function"',
        )
    return name


def _load(name: str) -> Any:
    if name.startswith(PREFIX):
        return program_named(name)
    if ":" not in name:
        (point, *_) = entry_points(group=GROUP, name=name)
        name = point.value
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        with redirect_stdout(sys.stderr), chdir(os.getcwd()):
            loaded: Any = importlib.import_module(module)
        for part in attribute.split("."):
            loaded = getattr(loaded, part)
    except BaseException as error:  # importing a module may raise anything
        if isinstance(error, KeyboardInterrupt) and not place_of_error(error, apart=__file__):
            raise
        place = place_of_error(error, apart=__file__)
        message = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"--planner {name}: {message} ({place})" if place else f"--planner {name}: {message}",
            "package.module:function, importable here or in the working folder",
        ) from error
    return loaded


def _custom_planner(name: str, function: Any) -> CustomPlanner:
    decision = getattr(function, ATTRIBUTE, None)
    if not callable(function) or decision is None:
        raise ConfigurationError(
            f"--planner {name} must be a function marked with a decision, got {type(function).__name__}",
            f"mark it: @penstock.decides({Decision.CHAINING.value!r}); decisions are {', '.join(Decision)}",
        )
    place = place_of_function(function)
    at = f" ({place})" if place else ""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (NameError, ValueError):
        parameters = inspect.signature(function).parameters.values()
    wanted = {p.name: p.annotation is pa.Table for p in parameters if p.default is p.empty}
    allowed = (*_LAYERS, COSTS)
    for table in wanted:
        if table not in allowed:
            raise ConfigurationError(
                f"--planner {name}{at}: parameters must be tables ({', '.join(allowed)}), got {table}"
            )
    layers = [Layer.STREAM_GRAPH if table == COSTS else _LAYERS[table] for table in wanted]
    layers.append(ANSWERS[decision].layer if decision in ANSWERS else Layer.TOPOLOGY)
    return CustomPlanner(name, decision, function, wanted, max(layers, key=list(Layer).index))


# Send modules of planners to Spark's workers.


def send_planners(spark: "SparkSession", custom_planners: Iterable[CustomPlanner]) -> None:
    """Send the modules of custom planners, files or whole packages, to the workers."""
    modules = {planner.function.__module__.partition(".")[0] for planner in custom_planners}
    for module in sorted(modules - {"penstock"} - set(sys.stdlib_module_names)):
        spec = importlib.util.find_spec(module)  # without running it
        module_file = None if spec is None else spec.origin
        if module_file is None:  # a package without __init__ cannot be told from ordinary folders
            continue
        file = Path(module_file)
        if file.name != "__init__.py":
            spark.sparkContext.addPyFile(str(file))
            continue
        with short_lived_folder("planner") as folder:
            archive = shutil.make_archive(f"{folder}/{module}", "zip", file.parent.parent, module)
            spark.sparkContext.addPyFile(archive)


# Files and lines of custom planners for messages.


_INSTALLED = ("site-packages", "dist-packages", "/lib/python3")


def place_of_function(function: Callable[..., Any]) -> str:
    """Return where a function is defined (`mine.py, line 5`), or its program's name; empty if unknown."""
    if isinstance(function, PlannerProgram):
        return function.name
    if isinstance(function, RemoteFunction):
        return str(function.described["place"])
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{as_imported(code.co_filename)}, line {code.co_firstlineno}"


def place_of_error(error: BaseException, apart: str) -> str:
    """Return the deepest frame outside installed packages, if any, as `mine.py, line 5, in policy`.

    `apart`: a file whose frames are skipped.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != apart and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if not any(folder in frame.filename for folder in _INSTALLED)]
    for frame in reversed(own or frames):
        return f"{as_imported(frame.filename)}, line {frame.lineno}, in {frame.name}"
    return ""


def as_imported(path: str) -> str:
    """Return the path from its folder in sys.path: equal in workers, which have copies elsewhere."""
    folders = [folder for folder in sys.path if folder and Path(path).is_relative_to(folder)]
    return str(Path(path).relative_to(max(folders, key=len))) if folders else path
