"""What the records of a journal may say: each is read by one of these, strictly, or it counts for nothing.

Anything may lie where a journal is looked for: a record of another program, of a later Penstock, half of one.
"""

from __future__ import annotations

import posixpath
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

FORMAT = 1

RunId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
"""It becomes a part of paths, as does the next."""

WriteId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Folder = Annotated[str, Field(min_length=1, max_length=32_768)]
_YEAR_3000 = 32_503_680_000.0


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class OwnerRecord(_Record):
    """A process: `run_owner.this_process`."""

    host: str
    machine: str
    boot: str
    namespace: str
    pid: Annotated[str, Field(pattern="^[0-9]{1,18}$")]
    started: str


class FilesArguments(_Record):
    """Arguments for the recovery of a file sink, beside its folder."""


class DeltaArguments(_Record):
    """Arguments for the recovery of a Delta sink, beside its folder (`commit_delta.json_of`)."""

    mode: Literal["append", "overwrite", "error", "ignore"]
    schema_: Annotated[str, Field(alias="schema")]
    partition_by: tuple[str, ...]
    table_id: str | None
    version: _Count | None


_ARGUMENTS: dict[str, type[_Record]] = {"files": FilesArguments, "delta": DeltaArguments}


class RecoveryRecord(_Record):
    """`operators.connectors.sink.Recovery`."""

    kind: Literal["files", "delta"]
    folder: _Folder
    arguments: dict[str, JsonValue]

    @model_validator(mode="after")
    def _has_arguments(self) -> Self:
        import json

        _ARGUMENTS[self.kind].model_validate_json(json.dumps(self.arguments))
        return self


class SinkRecord(_Record):
    """`journal.SinkOfRun`."""

    name: str
    write_id: WriteId
    class_name: str
    recovery: RecoveryRecord | None


class CommittableRecord(_Record):
    """`operators.connectors.sink.Committable`."""

    staged: str
    target: str
    size: _Count
    subtask: _Count
    details: dict[str, JsonValue]


class RunRecord(_Record):
    """`owner`: what a run is."""

    format: Literal[1]
    run_id: RunId
    job: str
    fingerprint: str
    started_at: Annotated[float, Field(ge=0.0, le=_YEAR_3000)]
    owner: OwnerRecord
    folders: Annotated[tuple[_Folder, ...], Field(min_length=1)]
    place: _Count | None = None  #: which of the folders the record lies in; None: it does not say
    sinks: tuple[SinkRecord, ...]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if any("://" not in folder and not posixpath.isabs(folder) for folder in self.folders):
            raise ValueError("a folder is a relative path")
        if self.place is not None and self.place >= len(self.folders):
            raise ValueError("it lies in none of its folders")
        for sink in self.sinks:
            if sink.recovery is not None and sink.recovery.folder not in self.folders:
                raise ValueError(f"sink {sink.name!r} writes into none of the run's folders")
        return self


class DecisionRecord(_Record):
    """`decision`: what becomes of a run."""

    publish: bool
    sinks: tuple[SinkRecord, ...] = ()
    committables: tuple[tuple[CommittableRecord, ...], ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if len(self.sinks) != len(self.committables):
            raise ValueError("not every sink has committables")
        return self


def what_is_wrong(error: ValidationError) -> str:
    """The first thing that is wrong with a record, on a line."""
    first: Any = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])
