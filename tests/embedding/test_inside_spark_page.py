"""The examples of the page "Inside a Spark job", in one session, one after the other."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "inside-spark.md"


def test_examples_run(spark: Any, capsys: Any) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"spark": spark, "__name__": "__main__"}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    shown = capsys.readouterr().out
    assert "1 planned, 0 rejected of 1 topologies" in shown
    assert re.search(r"ann\|\s*4\|\s*4\|.*ann\|\s*3\|\s*7\|", shown, re.DOTALL)
