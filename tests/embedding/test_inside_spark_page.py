"""The page "Inside a Spark job" as a notebook, run without a browser from top to bottom."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "inside-spark.ipynb"


@pytest.mark.spark
def test_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "stream" and output["name"] == "stdout"
    ]
    shown = "".join(printed)
    assert "1 planned, 0 rejected of 1 topologies" in shown
    assert re.search(r"ann\|\s*4\|\s*4\|.*ann\|\s*3\|\s*7\|", shown, re.DOTALL)
