"""Compile the loops of planning before a first fleet: `python -m penstock.engine.planning.compile_loops`.

numba keeps them next to the code or, if that cannot be written, in the user's cache. With a path, the loops
are written to that file for a wheel, see `plans/frames/compiled.py`.
"""

import json
import sys
from importlib.resources import files
from pathlib import Path

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.compiled import compile_always, pack_loops


def main() -> None:
    """Plan the bundled topologies, which need all loops, from a file and from dicts, with compiled loops."""
    compile_always()
    examples = files("penstock.engine") / "examples" / "examples.jsonl"
    plan_in_process(str(examples))
    plan_in_process(list(map(json.loads, examples.read_text(encoding="utf-8").splitlines())))
    plan_in_process([{"name": "a", "transformations": [{"id": 1, "kind": "source"}]}])
    for target in sys.argv[1:]:
        Path(target).write_bytes(pack_loops())


if __name__ == "__main__":
    main()
