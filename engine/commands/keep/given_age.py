"""Ages as options name them."""

from datetime import timedelta

from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_values import parse_duration


def given_age(text: str, option: str) -> timedelta:
    """A time such as 30d, 12h or 0s. Raises ConfigurationError."""
    try:
        return timedelta(milliseconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{option} {text!r}: {error}", "a time such as 30d, 12h or 0s") from None
