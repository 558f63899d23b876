"""Stores and scripts among the inputs of `plan`: their topologies as files, which every planner reads."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import MappingProxyType

import orjson

from engine.commands.export import ExportFormat, lines_of_plan
from engine.commits.temporary_folders import short_lived_folder
from engine.output.say import say_beside_output
from engine.output.write_lines import write_texts
from engine.store.is_local import local_folder
from engine.store.local_store_and_version import local_store_and_version
from engine.store.open_plan import open_plan
from engine.store.store_errors import store_errors
from plans.errors import InputError
from plans.importing.read_graphs import form_of_graph

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_MOST_OF_A_NAME = 40


@contextmanager
def stores_as_files(inputs: Sequence[str], scripts: Mapping[str, str] = NO_OPTIONS) -> Iterator[list[str]]:
    """`inputs` with a file of topology lines, there for as long as the context, in place of each local store,
    and of each script (`scripts`: options of its environments).

    It holds what was planned in the newest version, or in that of STORE@VERSION; of what was rejected a store
    keeps no text, which is said. Raises StoreError, and InputError where nothing was planned, and for graphs.
    """
    for path in inputs:
        if os.path.isfile(path) and form_of_graph(path) is not None and not path.endswith(".txt"):
            raise InputError(
                f"{path}: a graph, by its name, not topologies",
                f"penstock import {path} --out topologies.jsonl makes topologies of it",
            )
    with short_lived_folder("plan") as folder:
        yield [
            path
            if (store := local_store_and_version(path)) is None and not path.endswith(".py")
            else _jobs_written(path, scripts, folder, number)
            if store is None
            else _written(*store, folder, number)
            for number, path in enumerate(inputs)
        ]


def _jobs_written(script: str, scripts: Mapping[str, str], folder: str, number: int) -> str:
    """A file of the topologies of a script's jobs."""
    from engine.commands.job_option import say_failure_of_script
    from engine.commands.say_fusing import say_lost_settings
    from engine.datastream.environment_settings import EnvironmentSettings
    from engine.library.jobs_of_script import jobs_of_script
    from engine.runtime.job import topology_of

    with redirect_stdout(sys.stderr):
        found = jobs_of_script(script, [], EnvironmentSettings(config=scripts))
    say_failure_of_script(found)
    for job in found.jobs:
        say_lost_settings(job)
    file = Path(folder) / str(number) / f"{os.path.basename(script)[:_MOST_OF_A_NAME]}.jsonl"
    file.parent.mkdir()
    write_texts([orjson.dumps(topology_of(job)).decode() for job in found.jobs], file)
    return str(file)


def _written(store: str, version: int | None, folder: str, number: int) -> str:
    with store_errors(store, "reading"):
        plan = open_plan(store, version)
        if not plan.version.topologies:
            raise InputError(f"{store}: version {plan.version.version} has no planned topologies")
        # Messages about its topologies name it.
        called = os.path.basename(local_folder(store))[:_MOST_OF_A_NAME]
        file = Path(folder) / str(number) / f"{called}@{plan.version.version}.jsonl"
        file.parent.mkdir()
        write_texts(lines_of_plan(plan, ExportFormat.TOPOLOGIES), file)
    if rejected := plan.version.rejected:
        say_beside_output(
            f"{store}: {rejected:,} rejected topologies are left out: a store keeps why, not what they were"
        )
    return str(file)
