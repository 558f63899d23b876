"""Time a script, several times in one process, under `penstock run` or under PyFlink's python.

    time_script.py TIMES.json SCRIPT ARGUMENTS [--- ARGUMENTS]...

Arguments of successive runs are separated by `---`. The seconds of each run go to TIMES.json as a list.
"""

import json
import runpy
import sys
import time
from itertools import groupby


def main() -> None:
    """Run the script, once for each list of arguments."""
    times, script, *rest = sys.argv[1:]
    runs = [list(run) for ends, run in groupby(rest, lambda argument: argument == "---") if not ends]
    seconds = []
    for arguments in runs:
        sys.argv = [script, *arguments]
        started = time.monotonic()
        runpy.run_path(script, run_name="__main__")
        seconds.append(time.monotonic() - started)
    with open(times, "w") as file:
        json.dump(seconds, file)


if __name__ == "__main__":
    main()
