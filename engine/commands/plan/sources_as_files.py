"""Stores and scripts among the inputs of `plan`: their topologies as files, which every planner reads."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.engine.commands.look.export import ExportFormat, lines_of_plan
from penstock.engine.commands.reads_plan import topologies_of_script
from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.plan_options import PlanOptions
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_source import HOLDS_PLANS, SourceKind, require_kind
from penstock.engine.store.store_errors import store_errors
from penstock.plans.errors import InputError

_MOST_OF_A_NAME = 40


@contextmanager
def sources_as_files(
    inputs: Sequence[str], options: PlanOptions, scripts: Mapping[str, str]
) -> Iterator[list[str]]:
    """`inputs` with a file of topology lines, there for as long as the context, for each store and script.

    Of a store, it holds what was planned in the newest version, or in that of STORE@VERSION; of what was
    rejected a store keeps no text, which is said. Of a script, its jobs, planned with `scripts`, options of
    environments. Raises StoreError, ScriptError, and InputError for what has no plan (see require_kind).
    """
    with short_lived_folder("plan") as folder:
        files = []
        for number, path in enumerate(inputs):
            # a folder on another file system is whatever Spark finds there
            recognised = require_kind(path, None, *HOLDS_PLANS) if is_local(path) else None
            place = Path(folder) / str(number)
            if recognised is not None and recognised.kind is SourceKind.STORE:
                files.append(_topologies_of_store(recognised.path, recognised.version, place))
            elif recognised is not None and recognised.kind is SourceKind.SCRIPT:
                place.mkdir()
                files.append(str(topologies_of_script(path, place, options, scripts)))
            else:
                files.append(path)
        yield files


def _topologies_of_store(store: str, version: int | None, place: Path) -> str:
    with store_errors(store, "reading"):
        plan = open_plan(store, version)
        if not plan.version.topologies:
            raise InputError(f"{store}: version {plan.version.version} has no planned topologies")
        # Messages about its topologies name it.
        called = os.path.basename(local_folder(store))[:_MOST_OF_A_NAME]
        file = place / f"{called}@{plan.version.version}.jsonl"
        file.parent.mkdir()
        write_texts(lines_of_plan(plan, ExportFormat.TOPOLOGIES), file)
    if rejected := plan.version.rejected:
        say_beside_output(
            f"{store}: {rejected:,} rejected topologies are left out: a store keeps why, not what they were"
        )
    return str(file)
