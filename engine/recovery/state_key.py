"""The key by which Penstock knows again what it has kept itself."""

import secrets
from functools import cache

from pyarrow import fs

from penstock.engine.machine.state_folder import state_folder
from penstock.operators.files.durable_files import read_once_written, write_once

_BYTES = 32


def state_key() -> bytes:
    """The key of this user's state folder, made at its first use. OSError where it cannot be read or made."""
    return _key_in(str(state_folder()))


@cache
def _key_in(folder: str) -> bytes:
    system, path = fs.LocalFileSystem(), f"{folder}/key"
    while (found := read_once_written(system, path)) is None:
        write_once(system, path, secrets.token_hex(_BYTES))
    return bytes.fromhex(found)
