"""A file system that is not local, over folders of this machine: it counts calls, and may be slow."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyarrow import fs

from penstock.operators.files import filesystem

SCHEME = "far://"


class Far(fs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """Folders of this machine, each call of which takes `seconds`; opened files are read by calls, too."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.calls: Counter[str] = Counter()
        self.paths: Counter[tuple[str, str]] = Counter()
        self._local = fs.LocalFileSystem()

    def call(self, name: str, path: str) -> None:
        """Note a call of a function with a path."""
        self.calls[name] += 1
        self.paths[name, path] += 1
        if self.seconds:
            time.sleep(self.seconds)

    def get_type_name(self) -> str:
        return "far"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        for path in paths:
            self.call("info", path)
        infos: list[fs.FileInfo] = self._local.get_file_info(paths)
        return infos

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.call("list", selector.base_dir)
        infos: list[fs.FileInfo] = self._local.get_file_info(selector)
        return infos

    def create_dir(self, path: str, recursive: bool) -> None:
        self.call("make", path)
        self._local.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.call("delete", path)
        self._local.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.call("delete", path)
        self._local.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.call("delete", path)
        self._local.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self.call("move", dest)
        self._local.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self.call("copy", dest)
        self._local.copy_file(src, dest)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        self.call("open", path)
        return pa.PythonFile(_Reader(self, path), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        self.call("write", path)
        return self._local.open_output_stream(path, compression=None)

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__


class _Reader:
    def __init__(self, far: Far, path: str) -> None:
        self._far, self._path = far, path
        self._file = open(path, "rb")  # noqa: SIM115 Arrow closes it

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if data:
            self._far.call("read", self._path)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def far_files(far: Far) -> Iterator[None]:
    """Let URIs `far://…` be paths of `far`."""
    module: Any = filesystem
    known = module.fs
    system = fs.PyFileSystem(far)
    from_uri: Callable[[str], Any] = known.FileSystem.from_uri

    def found(uri: str) -> Any:
        return (system, uri.removeprefix(SCHEME)) if uri.startswith(SCHEME) else from_uri(uri)

    names = {name: getattr(known, name) for name in dir(known) if not name.startswith("__")}
    module.fs = SimpleNamespace(**{**names, "FileSystem": SimpleNamespace(from_uri=found)})
    try:
        yield
    finally:
        module.fs = known
