"""Custom planners: functions named as package.module:function, or by entry point."""

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

from penstock.engine.machine.state_folder import short_lived_folder
from penstock.engine.planning.planner_process import RemoteFunction, process_of
from penstock.engine.planning.planner_program import PREFIX, PlannerProgram, program_named
from penstock.plans.custom_planners.decisions import ANSWERS, ATTRIBUTE, Decision
from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.vocabulary import Layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GROUP = "penstock.planners"
"""The group of entry points whose names --planner takes."""

COSTS = "operator_costs"
_LAYERS = {table: layer for layer, tables in LAYER_TABLES.items() for table in tables}


class CustomPlanner(NamedTuple):
    """A function that decides; `reads` maps its parameters, tables, to whether it wants Arrow's.

    `layer` is the last layer of Flink's plan that it has to be shown.
    """

    name: str
    decision: Decision
    function: Callable[..., Any]
    reads: dict[str, bool]
    layer: Layer


def names_custom_planner(name: str) -> bool:
    """Whether --planner NAME means a custom planner."""
    return ":" in name or bool(entry_points(group=GROUP, name=name))


def find_custom_planners(planner: Any) -> list[CustomPlanner]:
    """The functions of a planner, in the order in which their decisions take effect.

    `planner`: its name, a function marked by penstock.decides, or a tuple or list of such functions with
    different decisions. Modules are looked for in the working folder too. Functions of a planner that is
    named are loaded and called in a process of their own (see answer_planner_calls), except Penstock's and
    those of `__main__`. Raises ConfigurationError.
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
    """The functions of a planner as find_custom_planners gives them, loaded in this process."""
    decided, name = (
        (_load(planner), planner) if isinstance(planner, str) else (planner, name_of_planner(planner))
    )
    functions = list(decided) if isinstance(decided, tuple | list) else [decided]
    custom_planners = [_custom_planner(name, function) for function in functions]
    decisions = [custom_planner.decision for custom_planner in custom_planners]
    if not custom_planners or len(set(decisions)) < len(decisions):
        raise ConfigurationError(f"--planner {name}: found decisions {', '.join(decisions) or 'none'}, "
                                 "allowed each once")  # fmt: skip
    return sorted(custom_planners, key=lambda custom_planner: list(Decision).index(custom_planner.decision))


def name_of_planner(planner: Any) -> str:
    """What a planner is called: its name, or module:function of each of its functions."""
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
    """The name by which other processes find a planner: itself, or module:function of a function.

    Raises ConfigurationError for a function that a module does not have under its name.
    """
    if isinstance(planner, str):
        return planner
    name = name_of_planner(planner)
    module, _, attribute = name.partition(":")
    found: Any = None if module == "__main__" else sys.modules.get(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is not planner:
        raise ConfigurationError(
            f"{argument}: found {name}, which processes of their own cannot import",
            'put the function into a module, and name it "module:function"',
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
    except BaseException as error:  # whatever the module raises
        if isinstance(error, KeyboardInterrupt) and not place_of_error(error, apart=__file__):
            raise
        place = place_of_error(error, apart=__file__)
        said = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"--planner {name}: {said} ({place})" if place else f"--planner {name}: {said}",
            "package.module:function, importable here or in the working folder",
        ) from error
    return loaded


def _custom_planner(name: str, function: Any) -> CustomPlanner:
    decision = getattr(function, ATTRIBUTE, None)
    if not callable(function) or decision is None:
        raise ConfigurationError(
            f"--planner {name}: found {type(function).__name__} without a decision, allowed a function",
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
                f"--planner {name}{at}: parameter {table}: found no such table, allowed {', '.join(allowed)}"
            )
    layers = [Layer.STREAM_GRAPH if table == COSTS else _LAYERS[table] for table in wanted]
    layers.append(ANSWERS[decision].layer if decision in ANSWERS else Layer.TOPOLOGY)
    return CustomPlanner(name, decision, function, wanted, max(layers, key=list(Layer).index))


# Modules of planners on Spark's workers.


def send_planners(spark: "SparkSession", custom_planners: Iterable[CustomPlanner]) -> None:
    """Let the workers import the modules that custom planners are in: files, or the packages around."""
    modules = {planner.function.__module__.partition(".")[0] for planner in custom_planners}
    for module in sorted(modules - {"penstock"} - set(sys.stdlib_module_names)):
        found = importlib.util.find_spec(module)  # which does not run it
        module_file = None if found is None else found.origin
        if (
            module_file is None
        ):  # a package without __init__: what is in it cannot be told from the folders around it
            continue
        file = Path(module_file)
        if file.name != "__init__.py":
            spark.sparkContext.addPyFile(str(file))
            continue
        with short_lived_folder("planner") as folder:
            archive = shutil.make_archive(f"{folder}/{module}", "zip", file.parent.parent, module)
            spark.sparkContext.addPyFile(archive)


# Where in a custom planner something is: the file and line that messages name.


_INSTALLED = ("site-packages", "dist-packages", "/lib/python3")


def place_of_function(function: Callable[..., Any]) -> str:
    """`mine.py, line 5`: where a function is defined, or the program that it is; empty where unknown."""
    if isinstance(function, PlannerProgram):
        return function.name
    if isinstance(function, RemoteFunction):
        return str(function.described["place"])
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{as_imported(code.co_filename)}, line {code.co_firstlineno}"


def place_of_error(error: BaseException, apart: str) -> str:
    """`mine.py, line 5, in policy`: the deepest frame outside of installed packages, if any is.

    `apart`: a file whose frames are not meant.
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
    """The path from the folder of modules that it is in: the same in workers, which have copies elsewhere."""
    folders = [folder for folder in sys.path if folder and Path(path).is_relative_to(folder)]
    return str(Path(path).relative_to(max(folders, key=len))) if folders else path
