"""Scripts and style sheets of the run page."""

from importlib.resources import files


def own_asset(name: str) -> str:
    """The text of a file beside this one."""
    return files("penstock.engine.ui").joinpath(name).read_text(encoding="utf-8")
