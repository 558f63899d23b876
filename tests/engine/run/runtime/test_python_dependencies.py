"""What functions of a job need beside themselves, as they find it: PyFlink 2.3.0 gives the same."""

# mypy: disable-error-code="import-not-found"

import os
import stat
import sys
import tarfile
import zipfile

import pytest

from penstock.engine.pyflink.common import Encoder, Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.run_environment import _is_remote
from penstock.operators.connectors.file_sink import FileSink
from penstock.plans.errors import JobCompileError, JobExecutionError


@pytest.mark.parametrize(
    ("location", "remote"), [("s3://b/a.zip", True), ("file:///a.zip", False), ("/a.zip", False)]
)
def test_what_is_remote(location, remote):
    assert _is_remote(location) is remote


@pytest.fixture
def env(spark):
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


@pytest.fixture
def script_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before


def collected(stream):
    with stream.execute_and_collect() as results:
        return sorted(results)


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def read(name):
    with open(name) as file:
        return file.read()


def test_functions_find_archives_below_their_working_folder(env, script_folder):
    zipped("plain.zip", {"inner/a.txt": "zip", "module_of_archive.py": "X = 1"})
    program = zipfile.ZipInfo("program")
    program.external_attr = (stat.S_IFREG | 0o755) << 16
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped("other.jar", {program: "run", link: "program"})
    (script_folder / "text").write_text("tar")
    for name, mode in (("t.tar", "w"), ("t.tar.gz", "w:gz"), ("t.tgz", "w:gz")):
        with tarfile.open(name, mode) as archive:  # type: ignore[call-overload]
            archive.add("text")
    env.add_python_archive("plain.zip")
    env.add_python_archive(str(script_folder / "plain.zip"), "data")
    env.add_python_archive("other.jar", "deep/er")
    for name in ("t.tar", "t.tar.gz", "t.tgz"):
        env.add_python_archive(name)

    def looked(_):
        try:
            import module_of_archive  # noqa: F401 archives are not looked through for modules
        except ImportError:
            found = [read("plain.zip/inner/a.txt"), read("data/inner/a.txt"), read("deep/er/link")]
            found += [read(f"{name}/text") for name in ("t.tar", "t.tar.gz", "t.tgz")]
            return [*found, " ".join(sorted(os.listdir("."))), str(os.access("deep/er/program", os.X_OK))]
        return []

    looked_twice = env.from_collection([1, 2]).rebalance().map(looked, Types.LIST(Types.STRING()))
    folders = "data deep plain.zip t.tar t.tar.gz t.tgz"
    assert collected(looked_twice) == 2 * [["zip", "zip", "run", "tar", "tar", "tar", folders, "True"]]
    assert os.getcwd() == str(script_folder)


def test_an_archive_that_changed_is_sent_again_and_a_job_without_one_works_where_it_did(spark, script_folder):
    def text_of_archive():
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        env.add_python_archive("changing.zip", "data")
        return collected(env.from_collection([1]).map(lambda _: read("data/a.txt"), Types.STRING()))

    zipped("changing.zip", {"a.txt": "first"})
    assert text_of_archive() == ["first"]
    zipped("changing.zip", {"a.txt": "second"})
    assert text_of_archive() == ["second"]
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    (folder,) = collected(env.from_collection([1]).map(lambda _: os.getcwd(), Types.STRING()))
    assert "penstock" not in os.path.basename(os.path.dirname(folder))
    assert not os.path.exists(os.path.join(folder, "data"))


def test_a_failing_function_leaves_the_archives_too(spark, script_folder):
    zipped("a.zip", {"a.txt": "1"})
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.add_python_archive("a.zip")
    with pytest.raises(JobExecutionError, match="nowhere"):
        collected(env.from_collection([1]).map(lambda _: read("nowhere"), Types.STRING()))
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    (folder,) = collected(env.from_collection([1]).map(lambda _: os.getcwd(), Types.STRING()))
    assert os.path.basename(folder) != "archives"


def test_paths_of_sinks_lead_where_they_lead_without_archives(env, script_folder, monkeypatch):
    from penstock.operators.files import filesystem

    zipped("a.zip", {"a.txt": "1"})
    before = filesystem.filesystem_of("out")
    with filesystem.relative_paths_from(str(script_folder)):
        monkeypatch.chdir("/")
        assert filesystem.filesystem_of("out")[1] == str(script_folder / "out")
        assert filesystem.filesystem_of("/out")[1] == "/out"
    monkeypatch.chdir(script_folder)
    assert filesystem.filesystem_of("out")[1] == before[1]

    workers = os.path.relpath(script_folder / "out", os.getcwd())
    env.add_python_archive("a.zip")
    sink = FileSink.for_row_format(str(script_folder / workers), Encoder.simple_string_encoder()).build()
    env.from_collection(["x"]).map(lambda _: read("a.zip/a.txt"), Types.STRING()).sink_to(sink)
    env.execute()
    written = [file for file in (script_folder / "out").rglob("part-*") if file.is_file()]
    assert [file.read_text() for file in written] == ["1\n"]


def test_modules_of_files_folders_and_archives(env, script_folder):
    for name in ("one", "other"):
        (script_folder / name).mkdir()
    (script_folder / "one" / "of_file.py").write_text("VALUE = 'py'\n")
    (script_folder / "other" / "of_folder.py").write_text(
        "import os\nVALUE = open(os.path.join(os.path.dirname(__file__), 'beside.txt')).read()\n"
    )
    (script_folder / "other" / "beside.txt").write_text("beside")
    zipped("packed.zip", {"package/__init__.py": "", "package/inner.py": "VALUE = 'zip'\n"})
    zipped("packed.whl", {"of_wheel.py": "VALUE = 'whl'\n"})
    for path in ("one/of_file.py", "other", "packed.zip", "packed.whl"):
        env.add_python_file(path)

    def imported(_):
        import of_file
        import of_folder
        import of_wheel
        from package import inner

        return " ".join([of_file.VALUE, of_folder.VALUE, inner.VALUE, of_wheel.VALUE])

    assert collected(env.from_collection([1]).map(imported, Types.STRING())) == ["py beside zip whl"]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_job_has_its_own_modules(spark, script_folder, parallelism):
    def imported():
        (module,) = (script_folder / "changing").glob("*.py")
        assert module.name == "of_two_jobs.py"
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
        env.add_python_file(str(module))
        env.add_python_file("changing")

        def value(_):
            import of_two_jobs

            return of_two_jobs.VALUE

        return collected(env.from_collection([1]).map(value, Types.STRING()))

    (script_folder / "changing").mkdir()
    (script_folder / "changing" / "of_two_jobs.py").write_text("VALUE = 'first'\n")
    assert imported() == ["first"]
    (script_folder / "changing" / "of_two_jobs.py").write_text("VALUE = 'second'\n")
    assert imported() == ["second"]


def test_requirements_are_installed_for_functions(env, script_folder):
    wheel = "required_thing-1.0-py3-none-any.whl"
    (script_folder / "wheels").mkdir()
    zipped(
        script_folder / "wheels" / wheel,
        {
            "required_thing.py": "VALUE = 'installed'\n",
            "required_thing-1.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: required-thing\nVersion: 1.0\n"
            ),
            "required_thing-1.0.dist-info/WHEEL": (
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
            "required_thing-1.0.dist-info/RECORD": "",
        },
    )
    (script_folder / "requirements.txt").write_text("required-thing==1.0\n")
    env.set_python_requirements("requirements.txt", "wheels")

    def value(_):
        import required_thing

        return required_thing.VALUE

    assert collected(env.from_collection([1]).map(value, Types.STRING())) == ["installed"]


@pytest.mark.parametrize(
    ("path", "target", "message"),
    [
        ("missing.zip", None, "python archive missing.zip does not exist"),
        ("text.zip", None, "python archive text.zip is not a zip file"),
        ("text.tgz", None, "python archive text.tgz is not a tar file"),
        (".", "data", r"python archive \. is a folder"),
        ("good.zip", "../out", "lies outside"),
        ("good.zip", "/out", "lies outside"),
    ],
)
def test_archives_that_cannot_be_used_are_named(env, script_folder, path, target, message):
    zipped("good.zip", {"a": "1"})
    for name in ("text.zip", "text.tgz"):
        (script_folder / name).write_text("text")
    env.add_python_archive(path, target)
    with pytest.raises(JobCompileError, match=message):
        collected(env.from_collection([1]).map(str, Types.STRING()))
