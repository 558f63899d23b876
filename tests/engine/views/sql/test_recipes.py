"""The recipes of docs/sql.md read what a version holds: no dropped version, no file that the log lacks."""

import os
import re
from pathlib import Path

import pytest

import penstock
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.plan_versions import find_version
from penstock.engine.store.vacuum_store import drop_version

PAGE = Path(__file__).parents[4] / "docs" / "sql.md"
RECIPES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a store whose versions have 1, 2, 3 and 4 operators; 4 is dropped, and 3 has an orphan file."""
    path = tmp_path_factory.mktemp("recipes")
    store = str(path / "store")
    for operators in (1, 2, 3, 4):
        chain = [{"id": 1, "kind": "source", "name": "S"}]
        chain += [
            {"id": i, "kind": "one_input", "name": "M", "inputs": [i - 1]} for i in range(2, operators + 1)
        ]
        penstock.plan({"name": "a", "transformations": chain}).write(store)
    drop_version(DeltaRsTables(store), 4)
    third = Path(store, "stream_nodes", f"write_id={find_version(DeltaRsTables(store), 3).write_id}")
    (file,) = third.glob("*.parquet")
    (third / "orphan.parquet").write_bytes(file.read_bytes())
    return path


def operators(recipe: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **names: object) -> object:
    monkeypatch.chdir(folder)
    known = dict(names)
    exec(compile(recipe.replace('"store/', f'"{os.getcwd()}/store/'), str(PAGE), "exec"), known)
    return known["operators"]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["duckdb", "polars", "pandas"])
def test_a_recipe_reads_the_newest_version(tool, folder, monkeypatch):
    (recipe,) = (
        r
        for r in RECIPES
        if {"duckdb": "import duckdb", "polars": "import polars"}.get(tool, "to_pandas") in r
    )
    assert operators(recipe, folder, monkeypatch) == 3


def test_the_recipe_for_spark_reads_the_newest_version(spark, folder, monkeypatch):
    (recipe,) = (r for r in RECIPES if "spark.read" in r)
    assert operators(recipe, folder, monkeypatch, spark=spark) == 3
