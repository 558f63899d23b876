"""Streams of this user, with the progress of their latest batches, for `penstock list` and the run page.

A stream is the file `state_folder("streams")/<id>.json`; its id follows from the folder of its state. Its
driver replaces the file before and after each batch. Nothing here imports pyspark.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.engine.machine.folders import describe_owner, liveness, state_folder, this_process
from penstock.engine.machine.machine_error import machine_error
from penstock.engine.output.print_line import print_message
from penstock.operators.files.durable_files import NotOwnError, create_private_file
from penstock.operators.state.read_state import tables_in

_FORMAT = 1
"""Raised whenever an older Penstock would misread a record."""

MOST_LISTED = 100
"""Streams that stay listed, the latest ones."""

RECENT = 20
"""Batches whose progress a record holds."""

_FILE = re.compile(r"([0-9a-f]{32})\.json")

Progress = dict[str, Any]


def progress_of_batch(manifest: Mapping[str, Any], duration_ms: Mapping[str, int]) -> Progress:
    """Return the progress of a batch, with the field names of Spark's StreamingQueryProgress.

    Own fields are `stateVersion`, `stateBytes` and `watermarkLagMs`, and `customMetrics` of operators.
    """
    version = manifest["version"]
    watermark = watermark_of(manifest)
    started_ms = int(manifest["started_at"] * 1000)
    total_ms = duration_ms["triggerExecution"]
    operators = []
    for operator in manifest["operators"]:
        written, alive = _segments([operator], version), _segments([operator])
        operators.append(
            {
                "operatorName": operator["name"],
                "operatorId": operator["operator_id"],
                "uid": operator["uid"],
                "numShufflePartitions": len(operator["parts"]),
                "customMetrics": {
                    "rowsWritten": sum(segment["rows"] for segment in written),
                    "bytesWritten": sum(segment["size"] for segment in written),
                    "stateBytes": sum(segment["size"] for segment in alive),
                },
            }
        )
    return {
        "id": manifest["query"],
        "name": manifest["job"],
        "timestamp": time_text(started_ms),
        "batchId": manifest["batch_id"],
        "batchDuration": total_ms,
        "durationMs": dict(duration_ms),
        "eventTime": {} if watermark is None else {"watermark": time_text(watermark)},
        "watermarkLagMs": None if watermark is None else started_ms - watermark,
        "numInputRows": manifest["rows"],
        "processedRowsPerSecond": round(manifest["rows"] / max(total_ms, 1) * 1000, 3),
        "stateVersion": version,
        "stateBytes": bytes_of(manifest),
        "stateOperators": operators,
    }


def watermark_of(manifest: Mapping[str, Any]) -> int | None:
    """Return the smallest watermark of a version, in milliseconds since the epoch; None if there is none."""
    return min(manifest["watermarks"].values(), default=None)


def bytes_of(manifest: Mapping[str, Any]) -> int:
    """Return the size of the segments of a version."""
    return sum(segment["size"] for segment in _segments(manifest["operators"]))


def _segments(operators: Sequence[Any], version: int | None = None) -> list[dict[str, Any]]:
    """Return the segments of operators, each once; with `version`, those that it has written."""
    files = {
        segment["file"]: segment
        for table in tables_in({"operators": operators})
        for segment in table["segments"].values()
    }
    begin = "" if version is None else f"{version:012d}-"
    return [segment for file, segment in files.items() if file.startswith(begin)]


def time_text(milliseconds: int) -> str:
    """Return milliseconds since the epoch as Spark shows times of progress; a number if no date has it."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


# The record of a stream.


@dataclass(frozen=True, kw_only=True)
class StreamRecord:
    """A stream, with the progress of its latest batches, oldest first."""

    folder: str  #: of its state
    name: str  #: of its job
    query: str | None  #: id of its query in Spark
    owner: Mapping[str, str]  #: the process of its driver
    started_at: int  #: when this driver began its first batch, milliseconds since the epoch
    changed_at: int = 0  #: milliseconds since the epoch
    batch_id: int = 0  #: of the batch that runs, or was the last one
    in_batch: bool = False  #: whether the batch has not ended
    failure: str | None = None  #: of the last batch
    progress: tuple[Progress, ...] = field(default_factory=tuple)

    @property
    def stream_id(self) -> str:
        """32 hex digits."""
        return hashlib.sha256(self.folder.encode()).hexdigest()[:32]

    @property
    def state(self) -> str:
        """RUNNING while its driver lives, FAILED if its last batch has, FINISHED if its driver has ended."""
        if self.failure is not None:
            return "FAILED"
        if liveness(self.owner) != "dead":
            return "RUNNING"
        return "FAILED" if self.in_batch else "FINISHED"

    @property
    def reason(self) -> str | None:
        """Why it has failed."""
        if self.failure is None and self.state == "FAILED":
            return f"its driver has died ({describe_owner(self.owner)}) within batch {self.batch_id}"
        return self.failure

    def as_json(self) -> dict[str, Any]:
        """Return the record for JSON, without the process of its driver."""
        shown = {"stream_id": self.stream_id, **asdict(self), "state": self.state, "failure": self.reason}
        shown.pop("owner")
        return shown


class RecordedStream:
    """Writes the record of a stream; if that fails, a message says so once, and the stream goes on."""

    def __init__(self, folder: str, name: str) -> None:
        self._record = StreamRecord(
            folder=folder, name=name, query=None, owner=this_process(), started_at=_now()
        )
        self._failed = False

    def begin(self, batch_id: int, query: str | None) -> None:
        """Note the begin of a batch."""
        self._write(replace(self._record, batch_id=batch_id, query=query, in_batch=True, failure=None))

    def end(self, progress: Progress | None) -> None:
        """Note the end of a batch; None: it was done before."""
        ended = replace(self._record, in_batch=False)
        if progress is not None:
            latest = (*ended.progress, progress)[-RECENT:]
            ended = replace(ended, name=progress["name"], progress=latest)
        self._write(ended)

    def fail(self, failure: str) -> None:
        """Note the failure of a batch."""
        self._write(replace(self._record, in_batch=False, failure=failure))

    def _write(self, record: StreamRecord) -> None:
        is_first = not self._record.changed_at
        self._record = replace(record, changed_at=_now())
        try:
            folder = state_folder("streams")
            unfinished = folder / f".{uuid.uuid4().hex}"
            with os.fdopen(create_private_file(str(unfinished)), "w") as file:
                file.write(json.dumps({"format": _FORMAT, **vars(self._record)}))
            unfinished.replace(folder / f"{record.stream_id}.json")
            if is_first:
                _remove_old(folder)
        except OSError as error:
            if not self._failed:
                self._failed = True
                print_message(f"the stream of {record.folder} is not listed: {error}")


def _now() -> int:
    return time.time_ns() // 1_000_000


def _remove_old(folder: Path) -> None:
    for record in list_streams()[MOST_LISTED:]:
        if record.state != "RUNNING":
            (folder / f"{record.stream_id}.json").unlink(missing_ok=True)


def list_streams() -> list[StreamRecord]:
    """Return the streams of this user whose state exists, the latest first. Raises MachineError."""
    try:
        folder = state_folder("streams")
        files = [path for path in folder.iterdir() if _FILE.fullmatch(path.name)]
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:  # a folder that cannot be made has no streams
        return []
    records = [record for file in files if (record := _read(file)) is not None]
    return sorted(records, key=lambda record: (record.changed_at, record.folder), reverse=True)


def look_up_stream(stream_id: str) -> StreamRecord | None:
    """Return the stream with this id; None if it is not listed."""
    with suppress(OSError):
        return _read(state_folder("streams") / f"{stream_id}.json")
    return None


def _read(file: Path) -> StreamRecord | None:
    """Return a record; None if it is of another format or damaged, or its state is gone."""
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        if known.pop("format") != _FORMAT:
            return None
        record = StreamRecord(**{**known, "progress": tuple(known["progress"])})
        gone = "://" not in record.folder and not os.path.isdir(record.folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return None if (gone and not record.in_batch) or f"{record.stream_id}.json" != file.name else record
