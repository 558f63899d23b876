"""Sentences of SECURITY.md that the code could break unnoticed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

UNPICKLES = {
    "engine/pyflink/datastream",
    "engine/run/clusters",
    "engine/run/runtime",
    "engine/spark",
    "operators/common",
    "operators/connectors",
    "operators/exchange",
    "operators/state",
    "operators/task",
    "plans/frames",
}
"""Folders of modules that load pickles: functions, records, requests to sessions, and loops of a wheel."""


def files_with(pattern: str) -> list[Path]:
    return [
        file
        for package in ("penstock", "plans", "operators", "engine")
        for file in sorted((ROOT / package).rglob("*.py"))
        if re.search(pattern, file.read_text(encoding="utf-8"))
        and "penstock" not in file.relative_to(ROOT).parts[1:]
    ]


def test_pickles_are_loaded_only_where_security_md_says():
    """Not in stores, job lists, journals, results, plans or imports."""
    found = files_with(r"\b(?:cloud)?pickle\.loads?\(")
    assert {file.parent.relative_to(ROOT).as_posix() for file in found} == UNPICKLES
    assert files_with(r"\bmarshal\.loads?\(|\bshelve\.open\(|\bdill\b|\bjoblib\b") == []


def test_yaml_makes_plain_values_only():
    loads = [
        call
        for file in files_with(r"\byaml\.\w*load\w*\(")
        for call in re.findall(r"\byaml\.\w*load\w*\([^\n]*", file.read_text(encoding="utf-8"))
    ]
    assert loads
    assert [
        call for call in loads if not re.match(r"yaml\.(safe_load\(|load\(text, _loader\(\)\))", call)
    ] == []


def test_links_of_security_md_lead_somewhere():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for path, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", text)):
        page = (ROOT / path).read_text(encoding="utf-8")
        headings = [
            re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-")
            for h in re.findall(r"^#+ (.*)$", page, re.M)
        ]
        assert not anchor or anchor in headings
