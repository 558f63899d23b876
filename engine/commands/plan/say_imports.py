"""Says what `plan` has assumed of topologies that were imported from other forms."""

from collections.abc import Mapping
from textwrap import wrap

import polars as pl

from penstock.engine.output.say import say_beside_output
from penstock.engine.store.is_local import is_local
from penstock.engine.store.open_plan import open_plan
from penstock.plans.importing.imported import ASSUMED_KEY, FORM_KEY, IGNORED_KEY

_MOST = 20
_WIDTH = 80


def say_imports(store: str, version: int, inputs: Mapping[str, str]) -> None:
    """For each file and form of imported topologies of a version, which keys were filled in or ignored.

    `inputs`: what a file is called, where that is not its path.
    """
    if not is_local(store):
        return
    imports = (
        open_plan(store, version)
        .table("topologies")
        .select(
            file="source_file",
            **{
                key: pl.col("config").map.get(name)
                for key, name in (("form", FORM_KEY), ("assumed", ASSUMED_KEY), ("ignored", IGNORED_KEY))
            },
        )
        .filter(pl.col("form").is_not_null())
        .group_by("file", "form", "assumed", "ignored")
        .len()
        .sort("file", "form", "assumed", "ignored")
        .collect()
    )
    for file, form, assumed, ignored, count in imports.head(_MOST).iter_rows():
        say_import(count, inputs.get(file, file) or "objects", form, assumed or "", ignored or "")
    if len(imports) > _MOST:
        say_beside_output(f"and {len(imports) - _MOST:,} more files with imported topologies")


def say_import(count: int, file: str, form: str, assumed: str, ignored: str) -> None:
    """How many topologies of a file came from which form, and what was filled in and ignored."""
    many = "topology" if count == 1 else "topologies"
    say_beside_output(f"{file}: {count:,} {many} imported from {form}")
    for heading, listed in (("assumed", assumed), ("ignored", ignored)):
        if listed:
            for line in wrap(f"{heading}: {listed}", _WIDTH, initial_indent="  ", subsequent_indent="    "):
                say_beside_output(line)
