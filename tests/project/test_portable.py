"""What only Linux has stands in one module; its portable way answers alike."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.engine.machine import operating_system
from penstock.engine.machine.available_memory import available_memory, memory_bytes
from penstock.engine.machine.folders import liveness, this_process
from penstock.engine.machine.operating_system import WITHOUT_LINUX
from penstock.engine.machine.stop_on_signals import is_running, process_tree, processes_of_session
from penstock.operators.files.durable_files import force_descriptor
from tests.processes import is_alive
from tests.project.test_session import ROOT

ONLY_LINUX = re.compile(
    r"""/proc\b|/sys/fs|/dev/shm|prctl|sched_[gs]etaffinity|memfd_|O_TMPFILE|\bO_PATH\b|renameat|pidfd|inotify"""
    r"""|signalfd|eventfd|epoll|copy_file_range|posix_fallocate|sendfile|SO_PEERCRED|F_[A-Z]*SEAL|ru_maxrss"""
    r"""|platform\.startswith|CDLL"""
)
"""Files and calls of Linux; `ru_maxrss` has another unit elsewhere."""

ALLOWED = {
    "engine/flink/RunTimes.java",  # Flink's peak; left out if it cannot be read
    "engine/machine/operating_system.py",
}


def test_what_only_linux_has_stands_in_one_module():
    sources = [
        path
        for folder in ("engine", "operators", "plans", "penstock")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".java") and not path.is_symlink()
    ]
    found = set()
    for path in sources:
        for line in path.read_text(encoding="utf-8").splitlines():
            code = line.partition("  #")[0]
            if ONLY_LINUX.search(code) and not code.lstrip().startswith(("#", '"""', "*", "//")):
                found.add(str(path.relative_to(ROOT)))
    assert {path for path in found if not path.startswith("penstock/")} == ALLOWED


@pytest.fixture(params=["linux", "portable"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way in which operating_system answers, also in processes below."""
    if request.param == "portable":
        monkeypatch.setenv(WITHOUT_LINUX, "1")
    elif not operating_system.is_linux():
        pytest.skip("needs Linux and its /proc")
    return str(request.param)


def started(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def child(system: str) -> Iterator[subprocess.Popen[str]]:
    """A process of a session of its own, with a child, which sleeps."""
    below = "import time; time.sleep(100)"
    with started(
        f"import subprocess, sys\nbelow = subprocess.Popen([sys.executable, '-c', {below!r}])\n"
        "print(below.pid, flush=True)\nsys.stdin.read()\nbelow.kill()\nbelow.wait()"
    ) as process:
        yield process
        process.communicate()


def test_processes_are_seen(child: subprocess.Popen[str]):
    assert child.stdout is not None
    below = int(child.stdout.readline())
    assert process_tree(os.getpid()) >= {os.getpid(), child.pid, below}
    assert process_tree(child.pid) == processes_of_session(child.pid) == {child.pid, below}
    shown = operating_system.process(below)
    assert shown is not None
    assert (shown.parent, shown.session, shown.has_ended) == (child.pid, child.pid, False)
    assert shown == operating_system.process(below)
    assert operating_system.resident_bytes(child.pid) > 2**20  # the other may have just begun
    assert operating_system.processor_seconds(os.getpid()) > 0.1
    os.kill(child.pid, signal.SIGKILL)
    os.kill(below, signal.SIGKILL)
    while is_alive(child.pid):
        time.sleep(0.01)
    assert not is_running(child.pid)  # a zombie until it is waited for
    child.wait()
    assert operating_system.process(child.pid) is None
    assert operating_system.resident_bytes(child.pid) == operating_system.processor_seconds(child.pid) == 0


def test_a_process_is_known_again(system: str):
    owner = this_process()
    assert liveness(owner) == "alive"
    assert liveness({**owner, "started": "1"}) == "dead"
    ended = started("")
    ended.communicate()
    assert liveness({**owner, "pid": str(ended.pid)}) == "dead"


def test_memory_and_cores(system: str):
    total = operating_system.physical_memory_bytes()
    assert total == psutil.virtual_memory().total
    assert memory_bytes() <= total
    assert 0 < available_memory().size_bytes <= operating_system.free_memory_bytes() + 2**28
    assert operating_system.free_memory_bytes() == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert 1 <= operating_system.cores() <= (os.cpu_count() or 1)
    assert operating_system.own_peak_bytes() >= operating_system.resident_bytes(os.getpid()) - 2**24 > 2**24
    busy = operating_system.machine_seconds()
    assert busy is not None
    assert busy.busy > 0
    assert operating_system.processor_name() or system == "portable"


@pytest.mark.parametrize("way", ["module", "program"])
def test_a_child_ends_with_a_parent_that_is_killed(system: str, way: str):
    """Its pipes end with it, too."""
    module = "from penstock.engine.machine.operating_system import PARENT, die_with_parent, with_parent\n"
    below = "print('began', flush=True); import time; time.sleep(100)"
    code = {
        "module": f"[sys.executable, '-c', {module + 'die_with_parent()' + chr(10) + below!r}]",
        "program": f"with_parent([sys.executable, '-c', {below!r}])",
    }[way]
    parent = started(
        f"import os, subprocess, sys, time\n{module}os.environ[PARENT] = str(os.getpid())\n"
        f"below = subprocess.Popen({code}, stdout=subprocess.PIPE)\nbelow.stdout.readline()\n"
        "print(below.pid, flush=True)\ntime.sleep(100)"
    )
    assert parent.stdout is not None
    below_id = int(parent.stdout.readline())
    assert is_alive(below_id)
    parent.kill()
    parent.communicate()
    end = time.monotonic() + 30
    while is_alive(below_id) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_alive(below_id)


def test_a_program_keeps_its_id_its_streams_and_its_exit_code(system: str):
    code = (
        "import subprocess, sys\nfrom penstock.engine.machine.operating_system import with_parent\n"
        "command = [sys.executable, '-c', 'import os; print(os.getpid(), input()); exit(7)']\n"
        "below = subprocess.Popen(with_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(below.communicate(b'in\\n')[0].decode() == f'{below.pid} in\\n', below.returncode)"
    )
    assert started(code).communicate()[0] == "True 7\n"


def test_orphans_end_with_the_command(system: str):
    """A child that begins another process and ends leaves an orphan."""
    below = "import subprocess as s, sys; print(s.Popen([sys.executable, '-c', 'input()']).pid, flush=True)"
    code = (
        "import subprocess, sys\n"
        "from penstock.engine.machine.operating_system import adopt_orphans\n"
        "from penstock.engine.machine.stop_on_signals import end_children\n"
        f"adopt_orphans()\nsubprocess.run([sys.executable, '-c', {below!r}], stdin=0)\n"
        "end_children()\nprint('ended')"
    )
    with started(code) as process:
        assert process.stdout is not None
        orphan = int(process.stdout.readline())
        assert process.stdout.readline() == "ended\n"
        assert not is_alive(orphan)


@pytest.mark.parametrize("name", ["/dev/fd/{}", "link"])
def test_paths_of_descriptors(system: str, tmp_path, name: str):
    with (tmp_path / "file").open("w") as file:
        path = Path(name.format(file.fileno())) if name != "link" else tmp_path / name
        if name == "link":
            path.symlink_to(f"/dev/fd/{file.fileno()}")
        assert operating_system.descriptor_of(path) == file.fileno()
    assert operating_system.descriptor_of(path) is None
    assert operating_system.descriptor_of(tmp_path / "file") is None
    assert operating_system.descriptor_of("/dev/null") is None
    named = [operating_system.descriptor_of(f"/dev/std{end}") for end in ("in", "out", "err")]
    assert named == [0, 1, 2]


def test_the_cache_of_the_disk_is_written_where_the_system_can(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """macOS: F_FULLFSYNC; a file system without it gets fsync."""
    calls: list[object] = []
    fcntl = sys.modules["fcntl"]
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, option: calls.append(option))
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    force_descriptor(0)

    def fail(descriptor: int, option: int) -> None:
        raise OSError(25, "no such option")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    force_descriptor(0)
    assert calls == [51, "fsync"]


def test_names_differ_by_more_than_case():
    """On a Mac, names that differ only in case are one file."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    names = listed.split("\n")
    assert len({name.casefold() for name in names}) == len(set(names))
