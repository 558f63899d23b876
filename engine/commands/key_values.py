"""Options that are given as KEY=VALUE."""

from collections.abc import Sequence

from engine.output.redaction import redact_value, remember_secrets
from plans.errors import ConfigurationError


def key_values(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """KEY=VALUE items as a dict; ConfigurationError naming all that are not."""
    wrong = [item for item in items or [] if not item.partition("=")[0] or "=" not in item]
    if wrong:
        shown = ", ".join(redact_value(item, item) for item in wrong)
        raise ConfigurationError(f"{option} {shown}: not KEY=VALUE", f"write {option} key=value")
    found = {key: value for key, _, value in (item.partition("=") for item in items or [])}
    remember_secrets(found)
    return found
