"""Write golden data: topologies with the plans that the real Flink makes of them.

    python -m tests.write_golden TOPOLOGIES tests/golden/NAME.jsonl.gz

TOPOLOGIES (.jsonl or .jsonl.gz) has one topology per line, or lines of golden data, which are planned again.
Requires the extra `flink` and a JDK.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from penstock.engine.flink.plan_with_flink import plan_with_flink


def write_golden(topologies: Path, golden: Path) -> int:
    """Write one line `{"topology", "expected"}` for each topology; return the number of lines.

    Raises ValueError, before anything is written, if Flink has no API for one of them (stage `unsupported`).
    """
    read = [json.loads(line) for line in _text(topologies).splitlines() if line.strip()]
    planned = [line.get("topology", line) for line in read]
    plans: list[dict[str, Any]] = list(plan_with_flink(map(json.dumps, planned)).plans)
    for plan in plans:
        if plan.get("error_stage") in ("unsupported", "input"):
            raise ValueError(f"{plan['name']}: {plan['message']}")
    lines = [
        json.dumps({"topology": topology, "expected": plan}, separators=(",", ":"))
        for topology, plan in zip(planned, plans, strict=True)
    ]
    # without a time stamp, the same plans give the same bytes
    golden.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    return len(lines)


def _text(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


if __name__ == "__main__":
    topologies_file, golden_file = map(Path, sys.argv[1:])
    print(f"{write_golden(topologies_file, golden_file)} topologies in {golden_file}")
