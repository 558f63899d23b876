"""The one typed model of all options that Penstock reads.

Every option is defined once: those of jobs by planning (plans.topology.flink_options), the others beside this
module. The model, `penstock config` and the reference in docs/configuration.md follow from these lists.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from penstock.engine.configuration.cluster_options import CLUSTER_OPTIONS
from penstock.engine.configuration.job_options import JOB_OPTIONS
from penstock.engine.configuration.option import Option
from penstock.engine.configuration.run_options import RUN_OPTIONS

OPTIONS: tuple[Option, ...] = (*JOB_OPTIONS, *CLUSTER_OPTIONS, *RUN_OPTIONS)
"""Every option, in the order of the reference."""


def _field(option: Option) -> tuple[Any, Any]:
    """Type and default of a field; its text is read by the option's own parser, which gives that type."""
    kind: Any = object if option.default is None else type(option.default)
    if option.is_map:
        kind = dict[str, int] if isinstance(next(iter(option.default.values()), ""), int) else dict[str, str]
    kind = kind | None if option.default is None else kind
    default = Field(default=option.default, alias=option.key, description=option.meaning)
    return Annotated[kind, BeforeValidator(option.parse)], default


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_FIELDS: dict[str, Any] = {option.field: _field(option) for option in OPTIONS}
Options: type[BaseModel] = create_model("Options", __base__=_Strict, **_FIELDS)
"""A field per option, named by its key; its alias is the key itself."""


def typed_values(texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values of all options by key, and what is wrong with texts, by key; defaults where there is none or a
    wrong one.
    """
    wrong: dict[str, str] = {}
    try:
        found = Options.model_validate(dict(texts))
    except ValidationError as error:
        for one in error.errors(include_url=False):
            cause = one.get("ctx", {}).get("error", one["msg"])
            wrong[str(one["loc"][0])] = str(cause)
        found = Options.model_validate({key: text for key, text in texts.items() if key not in wrong})
    return found.model_dump(by_alias=True), wrong
