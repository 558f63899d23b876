"""Programs that stand for java and javac."""

import stat
import sys
from pathlib import Path


def script(path: Path, text: str) -> str:
    """An executable at `path` that runs this Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport os, pathlib, sys\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)
