"""Whether DuckDB can be imported; an installation in place that is older lacks it."""

from penstock.plans.errors import ConfigurationError


def require_duckdb() -> None:
    """ConfigurationError without DuckDB."""
    try:
        import duckdb  # noqa: F401
    except ImportError as error:
        raise ConfigurationError("DuckDB is not installed", "pip install 'duckdb>=1.5,<2'") from error
