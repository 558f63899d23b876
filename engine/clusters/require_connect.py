"""Whether what Spark Connect needs is installed."""

from importlib.util import find_spec

from penstock.plans.errors import ConfigurationError

_MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")
"""Of grpcio, grpcio-status, googleapis-common-protos and zstandard."""


def require_connect() -> None:
    """Raise ConfigurationError, naming what is missing, where the extra `session` is not installed."""
    missing = [name for name in _MODULES if not _is_there(name)]
    if missing:
        raise ConfigurationError(
            f"sessions need Spark Connect: the modules {', '.join(missing)} are not installed",
            "pip install 'penstock[session]'",
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package above it
        return False
