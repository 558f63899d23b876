"""Whether --out takes topologies as lines."""

from penstock.plans.errors import ConfigurationError

LINES = (".jsonl", ".jsonl.gz")
"""How names of files of topology lines end."""


def require_lines_to_draw(out: str, what: str) -> None:
    """ConfigurationError unless `out` names a file of lines; `what`: what is written as lines alone."""
    if not out.endswith(LINES):
        raise ConfigurationError(f"--out {out}: {what}: topologies are lines", "FILE.jsonl or FILE.jsonl.gz")
