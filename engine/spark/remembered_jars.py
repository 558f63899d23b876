"""Which files Spark has resolved its packages to, so that Ivy need not be asked at each start."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from penstock.engine.machine.cache_folder import cache_folder
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.output.redaction import redact
from penstock.plans.errors import PenstockError

_KEYS = ("spark.jars.packages", "spark.jars.excludes", "spark.jars.ivy", "spark.jars.ivySettings")


def remembered_jars(settings: Mapping[str, str]) -> list[Path] | None:
    """The jars that `settings` were resolved to before; None if that is not known, or one has gone."""
    try:
        jars = [Path(one) for one in json.loads(_note(settings).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None
    return jars if jars and all(one.is_file() for one in jars) else None


def resolves_what_it_says(settings: Mapping[str, str]) -> bool:
    """Whether the jars of a context started with `settings` are those of its packages, and no others.

    Jars of a user's own come beside them, and a command line for spark-submit may name other packages.
    """
    return not settings.get("spark.jars") and not os.environ.get("PYSPARK_SUBMIT_ARGS")


def remember_jars(settings: Mapping[str, str], resolved: str) -> None:
    """Note `resolved`: spark.jars of a context that was started with `settings`. Best effort."""
    jars = [unquote(urlparse(one).path) for one in resolved.split(",") if one.startswith("file:")]
    if not jars or redact(resolved) != resolved:
        return
    with suppress(OSError, PenstockError), replace_file(_note(settings)) as file:
        file.write(json.dumps(jars).encode())


def _note(settings: Mapping[str, str]) -> Path:
    asked = json.dumps([settings.get(key, "") for key in _KEYS])
    return cache_folder() / f"jars-{hashlib.sha256(asked.encode()).hexdigest()[:16]}.json"
