"""Compile the loops of planning before a first fleet: `python -m penstock.engine.planning.compile_loops`.

numba keeps them next to the code or, if that cannot be written, in the user's cache.
"""

from importlib.resources import files

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.compiled import compile_always


def main() -> None:
    """Plan the bundled topologies, which need each loop once, with compiled loops only."""
    compile_always()
    plan_in_process(str(files("penstock.engine") / "examples" / "examples.jsonl"))


if __name__ == "__main__":
    main()
