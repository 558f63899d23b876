"""A page of a benchmark: one HTML document that opens without a network."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.plans.printable import printable_lines


def render_template(name: str, **values: Any) -> str:
    """The template of this package with `values`, which are escaped unless they are Markup."""
    environment = Environment(
        loader=PackageLoader("penstock.engine.measure.bench", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return printable_lines(environment.get_template(name).render(values))
