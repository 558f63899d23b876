"""Write the options of docs/configuration.md: `python -m tests.configuration_page docs`."""

import sys
from pathlib import Path

from penstock.engine.configuration.cluster_options import Reader, option_text
from penstock.engine.configuration.merge_settings import OPTIONS
from tests.reference_pages import WRITTEN, cell

_OPTIONS = "\n## Options\n"


def configuration_page(page: str) -> str:
    """Return the page on configuration, `page`, with its list of options from the code, in Markdown."""
    lines = ["", WRITTEN.replace("Written", "The tables below are written"), ""]
    headings = {
        Reader.JOBS: "Of jobs: defaults of topologies and scripts that do not set them",
        Reader.CLUSTER: "Of the cluster that jobs are planned for",
        Reader.RUNS: "Of running",
    }
    for reader, heading in headings.items():
        lines += [f"### {heading}", "", "| key | default | values | meaning |", "|---|---|---|---|"]
        for option in (candidate for candidate in OPTIONS if candidate.reader is reader):
            keys = f"`{option.key}`"
            if option.deprecated:
                keys += f" (deprecated: {', '.join(f'`{key}`' for key in option.deprecated)})"
            default = option_text(option, option.default)
            lines.append(f"| {keys} | {cell(default)} | {cell(option.allowed)} | {cell(option.meaning)} |")
        lines.append("")
    before, heading, _ = page.partition(_OPTIONS)
    return before + heading + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    written = Path(sys.argv[1], "configuration.md")
    written.write_text(configuration_page(written.read_text(encoding="utf-8")), encoding="utf-8")
