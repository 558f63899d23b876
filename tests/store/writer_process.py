"""Writes a plan of one topology, `python -m tests.store.writer_process STORE NAME GO`: all but publishing it.

It then prints `ready`, and publishes once the file GO is there.
"""

import sys
import time
from pathlib import Path

from penstock.engine.spark.session import get_session
from penstock.engine.store import plan_versions
from penstock.engine.store import write_plan as writing
from tests.store.test_store import plan_of, write


def main() -> None:
    store, name, go = sys.argv[1:]

    def publish_later(*arguments):
        print("ready", flush=True)
        while not Path(go).exists():
            time.sleep(0.05)
        return plan_versions.publish(*arguments)

    writing.__dict__["publish"] = publish_later
    spark = get_session(app_name=f"write {name}")
    print(write(spark, store, plan_of(spark, **{name: "1"})), flush=True)


if __name__ == "__main__":
    main()
