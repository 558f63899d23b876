"""Delta tables with any protocol, properties and columns: the first entry of a log, written by hand."""

import json
import uuid
from pathlib import Path


def field(name, data_type, nullable=True, **metadata):
    """A column."""
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": metadata}


def mapped(name, data_type, number, nullable=True):
    """A column of a table with column mapping: `col-<number>` in files."""
    rules = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": rules}


ID_AND_TEXT = (field("id", "long"), field("v", "string"))
READER_FEATURES = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def make_table(folder, fields=ID_AND_TEXT, features=(), properties=None, partition_by=(), version=None):
    """An empty table; `version`: of legacy protocols, (reader, writer)."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(READER_FEATURES & set(features)),
        "writerFeatures": sorted(features),
    }
    if version is not None:
        protocol = {"minReaderVersion": version[0], "minWriterVersion": version[1]}
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct(*fields)),
        "partitionColumns": list(partition_by),
        "configuration": properties or {},
        "createdTime": 0,
    }
    add_commit(folder, 0, {"protocol": protocol}, {"metaData": metadata})
    return str(folder)


def add_commit(folder, version, *actions):
    """The entry `version` of the log."""
    log = Path(folder) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def add_of(path, size, partition=None, rows=None):
    """The action that adds a file."""
    return {
        "add": {
            "path": path,
            "partitionValues": partition or {},
            "size": size,
            "modificationTime": 0,
            "dataChange": True,
            **({} if rows is None else {"stats": json.dumps({"numRecords": rows})}),
        }
    }
