"""Seconds of a script, several times in one process, under `penstock run` as under PyFlink's python.

    time_script.py TIMES.json SCRIPT ARGUMENTS [--- ARGUMENTS]...

Between `---` are the arguments of each time. The seconds of each go to TIMES.json as a list.
"""

import json
import runpy
import sys
import time
from itertools import groupby


def main() -> None:
    """Run the script, again and again."""
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
