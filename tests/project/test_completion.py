"""Completion in a real bash, of commands, options and their values."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.planning.planners import Planner

COMPLETE = """
eval "$(_PENSTOCK_COMPLETE=source_bash penstock)"
[[ $(complete -p penstock) =~ -F\\ ([^ ]+) ]] && function=${BASH_REMATCH[1]}
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
$function penstock "${@: -1}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pl"], {"plan"}),
        (["r"], {"run", "runs", "recover", "rejected"}),
        (["plan", "--pl"], {"--planner"}),
        (["plan", "--planner", ""], {*map(str, Planner)}),
        (["bench", "--until", "s"], {"stream_graph", "slots"}),
    ],
)
def test_bash_completes(tmp_path, words, expected):
    script = tmp_path / "penstock"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock.engine.commands.main "$@"\n')
    script.chmod(0o755)
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [shutil.which("bash") or "bash", "-c", COMPLETE, "bash", "penstock", *words],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert set(found.stdout.split()) == expected, found.stderr
