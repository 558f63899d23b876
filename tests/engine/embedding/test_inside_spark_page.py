"""The page "Inside a Spark job" as a notebook, and the tutorials for Spark engineers, from top to bottom."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


@pytest.mark.spark
def test_the_notebook_and_the_tutorials_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1\nspark.sql.shuffle.partitions 4\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    notebook = nbformat.read(DOCS / "inside-spark.ipynb", as_version=4)
    in_notebook = len(notebook.cells)
    shown = {}
    tutorials = [(DOCS / page).read_text(encoding="utf-8") for page in ("tutorial-spark.md", "streams.md")]
    for kind, text in BLOCK.findall("".join(tutorials)):
        if kind == "python":
            notebook.cells.append(nbformat.v4.new_code_cell(text))
        else:
            shown[len(notebook.cells) - 1] = text
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        "".join(
            output["text"]
            for output in cell.get("outputs", ())
            if output["output_type"] == "stream" and output["name"] == "stdout"
        )
        for cell in notebook.cells
    ]
    of_notebook = "".join(printed[:in_notebook])
    assert "1 planned, 0 rejected of 1 topologies" in of_notebook
    assert re.search(r"ann\|\s*4\|\s*4\|.*ann\|\s*3\|\s*7\|", of_notebook, re.DOTALL)
    assert {place: printed[place].strip() for place in shown} == {
        place: text.strip() for place, text in shown.items()
    }
