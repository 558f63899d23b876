"""Files that a user names: replaced whole or not at all; what is no regular file is written to."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.engine.machine.replace_file import make_output_folder, replace_file
from penstock.engine.output.write_lines import write_texts
from penstock.plans.errors import ConfigurationError, MachineError

ROOT = Path(__file__).parents[2]


def test_a_file_is_made_and_replaced_with_its_mode_and_owner(tmp_path: Path):
    file = tmp_path / "é plans.jsonl"
    write_texts(["a"], file)
    umask = os.umask(0)
    os.umask(umask)
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("a\n", 0o666 & ~umask)
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12, 34)
    owner = file.stat().st_uid, file.stat().st_gid
    write_texts(["b"], file)
    after = file.stat()
    assert (file.read_text(), after.st_mode & 0o777) == ("b\n", 0o640)
    assert (after.st_uid, after.st_gid) == owner
    assert os.listdir(tmp_path) == [file.name]


def test_a_name_may_be_as_long_as_names_may(tmp_path: Path):
    write_texts(["a"], tmp_path / ("n" * 255))
    assert (tmp_path / ("n" * 255)).read_text() == "a\n"


def test_links_are_followed_and_stay(tmp_path: Path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "old").write_text("old")
    (tmp_path / "to old").symlink_to("below/old")
    (tmp_path / "twice").symlink_to("to old")
    (tmp_path / "to new").symlink_to(tmp_path / "below" / "new")
    write_texts(["a"], tmp_path / "twice")
    write_texts(["b"], tmp_path / "to new")
    assert all((tmp_path / name).is_symlink() for name in ("to old", "twice", "to new"))
    assert [(tmp_path / "below" / name).read_text() for name in ("old", "new")] == ["a\n", "b\n"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    (tmp_path / "file").write_text("old")

    def texts():
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_texts(texts(), tmp_path / "file")
    assert ((tmp_path / "file").read_text(), os.listdir(tmp_path)) == ("old", ["file"])


def test_a_kill_leaves_the_old_file(tmp_path: Path):
    with pytest.raises(MachineError, match="cannot create files in /proc"):
        write_texts(["a"], Path("/proc/out.jsonl"))
    (tmp_path / "file").write_text("old")
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from penstock.engine.machine.replace_file import replace_file\n"
        "with replace_file(Path(sys.argv[1])) as file:\n"
        "    file.write(b'x' * 100_000)\n    print('written', flush=True)\n    sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "file")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / "file").read_text() == "old"
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["file"]


def test_devices_are_written_to():
    write_texts(["a"], Path("/dev/null"))
    assert not Path("/dev/null").is_file()
    with pytest.raises(MachineError, match="cannot write /dev/full: No space left on device"):
        write_texts(["a"], Path("/dev/full"))


def test_a_fifo_is_written_to(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "fifo").read_bytes()))
    reader.start()
    write_texts(["a", "b"], tmp_path / "fifo")
    reader.join()
    assert read == [b"a\nb\n"]
    assert (tmp_path / "fifo").is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"])
def test_standard_output_is_written_to_where_it_stands(tmp_path: Path, name: str):
    code = (
        "import sys\nfrom pathlib import Path\nfrom penstock.engine.output.write_lines import write_texts\n"
        "print('before')\nwrite_texts(['between'], Path(sys.argv[1]))\nprint('after')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code, name], cwd=ROOT, stdout=out, check=True)
    piped = subprocess.run([sys.executable, "-c", code, name], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert (tmp_path / "out").read_bytes() == piped.stdout == b"before\nbetween\nafter\n"


def test_what_cannot_be_written_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "loop").symlink_to("loop")
    for target, said in (
        (tmp_path, "is a directory"),
        (tmp_path / "a" / "b", "does not exist"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            write_texts(["a"], target)
    with pytest.raises(MachineError, match="cannot create files in /proc"):
        write_texts(["a"], Path("/proc/out.jsonl"))
    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(MachineError, match=r"file: Permission denied"), replace_file(tmp_path / "file"):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")
@pytest.mark.parametrize("folder", ["/proc/results", "/proc/results/of/today"])
def test_a_folder_that_the_system_takes_nowhere_is_said(folder):
    with pytest.raises(MachineError, match=f"--out {folder}: cannot create files in /proc"):
        make_output_folder(folder)


def test_a_file_in_the_way_of_a_folder_is_said(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigurationError, match="is not a directory"):
            make_output_folder(folder)
    make_output_folder(tmp_path / "new" / "below")
    assert (tmp_path / "new" / "below").is_dir()
