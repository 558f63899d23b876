"""Writes plans of one topology, `python -m tests.engine.store.writer_without_spark STORE NAME GO COUNT`.

The first is written up to publishing it; it then prints `ready`, and goes on once the file GO is there. At
the end it prints the numbers of its versions.
"""

import sys
import time
from pathlib import Path

from penstock.engine.store import plan_versions
from penstock.engine.store import write_plan as writing
from tests.engine.store.arrow_plans import plan_of, write


def main() -> None:
    store, name, go, count = sys.argv[1:]
    publish = plan_versions.publish

    def publish_later(*arguments):
        if not Path(go).exists():
            print("ready", flush=True)
        while not Path(go).exists():
            time.sleep(0.01)
        return publish(*arguments)

    writing.__dict__["publish"] = publish_later
    print(*(write(store, plan_of(**{f"{name}{i}": "1"})) for i in range(int(count))), flush=True)


if __name__ == "__main__":
    main()
