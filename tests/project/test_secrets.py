"""Secrets of settings: on no command line, in no environment, in no message."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.commands import capture
from penstock.engine.commands.key_values import given_settings
from penstock.engine.commands.main import app
from penstock.engine.flink.capture.run_capture import CaptureResult
from penstock.engine.machine.operating_system import WITHOUT_LINUX, is_linux
from penstock.engine.output import redaction
from penstock.engine.output.redaction import (
    REDACTED,
    redact,
    redact_value,
    remember_secret_arguments,
    remember_secrets,
)
from penstock.engine.spark.session import get_session
from penstock.engine.spark.spark_conf import spark_conf_dir
from penstock.engine.spark.start_jvm import JvmOutput
from penstock.engine.spark.start_settings import submit_arguments
from penstock.plans.errors import ConfigurationError
from tests.project.test_session import ROOT, run_python

_SESSION = """
import json, os, sys
from pathlib import Path
from tests.processes import command_line, environment
from penstock.engine.machine.stop_on_signals import process_tree
from penstock.engine.spark.session import get_session

secrets = ["hunter-conf", "hunter-file", "hunter-java", "hunter back\\\\slash=x"]
spark = get_session(conf={
    "spark.hadoop.fs.s3a.secret.key": secrets[0],
    "spark.my.token": secrets[3],
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Dstore.password=" + secrets[2],
    "spark.master": "local[1]", "spark.driver.memory": "1g",
})

def look(batches):
    import pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})

def read(pid, what):
    if what == "cmdline":
        return " ".join(command_line(pid))
    return " ".join(f"{name}={value}" for name, value in environment(pid).items())

workers = [row["pid"] for row in spark.range(1, numPartitions=1).mapInArrow(look, "pid long").collect()]
tree = process_tree(os.getpid()) - {os.getpid()}
seen = {
    f"{pid} {what}": secret
    for pid in tree for what in ("cmdline", "environ") for secret in secrets
    if secret in read(pid, what)
}
jvm = spark._jvm.java.lang.System
conf = spark.sparkContext.getConf()
print(json.dumps({
    "processes": len(tree), "workers_in_tree": set(workers) <= tree, "seen": seen,
    "left": [str(path) for path in Path(os.environ["TMPDIR"]).glob("penstock-settings-*")],
    "variable": os.environ.get("PYSPARK_SUBMIT_ARGS"),
    "of_java": jvm.getProperty("store.password"), "of_file": conf.get("spark.other.password"),
    "at_start": jvm.getProperty("spark.my.token"), "memory": conf.get("spark.driver.memory"),
}))
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Each test has secrets of its own."""
    monkeypatch.setattr(redaction, "_secret_values", set())
    for name in ("_secret_keys", "_secret_strings"):
        monkeypatch.setattr(redaction, name, list(getattr(redaction, name)))


@pytest.mark.spark
def test_no_process_of_a_session_shows_a_secret(tmp_path):
    conf_dir = tmp_path / "conf"
    conf_dir.mkdir()
    defaults = (spark_conf_dir() / "spark-defaults.conf").read_text()
    (conf_dir / "spark-defaults.conf").write_text(f"{defaults}\nspark.other.password hunter-file\n")
    done = run_python(_SESSION, tmp_path, SPARK_CONF_DIR=str(conf_dir), TMPDIR=str(tmp_path))
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["processes"] >= 3
    assert found == {
        "processes": found["processes"],
        "workers_in_tree": True,
        "seen": {},
        "left": [],
        "variable": None,
        "of_java": "hunter-java",
        "of_file": "hunter-file",
        "at_start": "hunter back\\slash=x",
        "memory": "1g",
    }


def test_settings_are_in_files_that_only_their_owner_reads():
    settings = {"spark.a secret": " x\\y\n=é", "spark.driver.extraJavaOptions": "-Dmy.token=abcd"}
    with submit_arguments(settings) as given:
        arguments = given.split()
        file = Path(arguments[arguments.index("--properties-file") + 1])
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode) for path in [file.parent, *file.parent.iterdir()]
        }
        text = file.read_text()
        options = file.parent / "spark.driver.extraJavaOptions.options"
        assert options.read_text() == "-Dmy.token=abcd"
    assert modes == {file.parent.name: 0o700, file.name: 0o600, options.name: 0o600}
    assert text == (
        f"spark.a\\ secret=\\ x\\\\y\\n=é\nspark.driver.extraJavaOptions=-XX:VMOptionsFile={options}\n"
    )
    assert not file.parent.exists()


def test_settings_are_gone_when_no_jvm_starts(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    with pytest.raises(KeyboardInterrupt, match=" --load-spark-defaults --verbose pyspark-shell"):
        interrupted({"a": "b"})
    assert list(tmp_path.iterdir()) == []


def interrupted(settings: dict[str, str]) -> None:
    with submit_arguments(settings) as given:
        raise KeyboardInterrupt(given)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--conf fs.s3a.secret.key=X: no", f"--conf fs.s3a.secret.key={REDACTED} no"),
        ("(my.Password='a b', size=3)", f"(my.Password={REDACTED}, size=3)"),
        ("spark.access.key=a accessKey=b tokens=c", " ".join(
            f"{key}={REDACTED}" for key in ("spark.access.key", "accessKey", "tokens"))),
        ("a token is wanted; name=token", "a token is wanted; name=token"),
    ],
)  # fmt: skip
def test_values_of_secret_keys_are_hidden_in_texts(text, shown):
    assert redact(text) == shown


def test_values_that_were_set_are_hidden_without_their_key():
    remember_secrets({"my.token": "hunter 22", "my.password": "true", "x.secret": "ab", "size": "12345"})
    text = "cannot log in with hunter 22: true, ab, 12345"
    assert redact(text) == f"cannot log in with {REDACTED}: true, ab, 12345"


def test_values_are_hidden_where_they_are_quoted_too():
    secret = "a\\b\x1bc"
    remember_secrets({"my.token": secret})
    message = f"{ConfigurationError(f'not {secret}')}; found {secret!r}"
    assert redact(message) == f"not {REDACTED}; found '{REDACTED}'"


def test_values_on_the_command_line_are_hidden():
    remember_secret_arguments(
        ["penstock", "--conf", "a.secret=first=1", "--conf=b.secret=second", "-Dc.secret=third 3", "x"]
    )
    assert redact("first=1 second third 3 x") == f"{REDACTED} {REDACTED} {REDACTED} x"


def test_sparks_own_options_say_what_else_is_hidden():
    remember_secrets({"spark.redaction.regex": "(?i)hush", "spark.redaction.string.regex": "card \\d+"})
    assert redact_value("my.HUSH", "5") == redact_value("my.secret", "5") == REDACTED
    assert redact("my.hush=5 and card 1234.") == f"my.hush={REDACTED} and {REDACTED}."


def test_a_regex_that_only_java_reads_hides_every_value():
    remember_secrets({"spark.redaction.regex": "(?<=a|bc)x"})
    assert redact_value("any", "5") == REDACTED


def test_what_the_jvm_says_is_printable_and_without_secrets(capfd):
    remember_secrets({"my.secret": "hunter 22"})
    read_end, write_end = os.pipe()
    forwarder = JvmOutput(read_end)
    os.write(write_end, b"kept\n")
    forwarder.start()
    while not forwarder.captured:
        forwarder.join(0.01)
    forwarder.forward()
    os.write(write_end, b"WARN hunter 22\tin \x1b[2Ja \xc2\x9b \xff\r\n\tat ")
    os.write(write_end, b"java\nlast")
    os.close(write_end)
    forwarder.join()
    assert forwarder.captured == b"kept\n"
    assert capfd.readouterr().err == (f"WARN {REDACTED}  in \\x1b[2Ja \\x9b \ufffd\\r\n        at java\nlast")


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_setting_that_is_none_is_not_repeated_if_it_looks_secret(capsys, command):
    with pytest.raises(SystemExit):
        app(
            [command, "x", "--out", "o", "--conf", "my.password hunter"]
            if command == "plan"
            else [command, "--conf", "my.password hunter", "x"]
        )
    said = capsys.readouterr().err
    assert "KEY=VALUE" in said
    assert REDACTED in said
    assert "hunter" not in said


@pytest.mark.skipif(not is_linux(), reason="only Linux can hide them")
def test_the_command_line_shows_no_secrets():
    code = (
        "import psutil, sys\n"
        "from penstock.engine.output.redaction import mask_arguments\n"
        "mask_arguments()\nprint(psutil.Process().cmdline()[3:])\n"
        "print(sys.argv[1:])"
    )
    given = ["--conf", "my.secret=hunter=\u00e92", "--conf=my.token=hunter3", "-Dmy.password=x", "my.name=y"]
    done = subprocess.run(
        [sys.executable, "-c", code, *given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    shown = ["--conf", f"my.secret={'*' * 10}", "--conf=my.token=*******", "-Dmy.password=*", "my.name=y"]
    assert done.stdout.splitlines() == [repr(shown), repr(given)]


@pytest.mark.parametrize(("given", "lines"), [("spark.my.secret=hunter", 2), ("spark.my.name=hunter", 0)])
def test_a_system_that_cannot_hide_secrets_of_the_command_line(given, lines):
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "plan", "--conf", given, "--help"],
        cwd=ROOT,
        env={**os.environ, WITHOUT_LINUX: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (0, lines)
    assert "hint: put them into a file" in done.stderr or lines == 0
    assert "hunter" not in done.stderr


def test_settings_come_from_a_file_too(tmp_path):
    file = tmp_path / "spark.properties"
    file.write_text("# mine\nspark.my.token  hunter\nspark.ui.enabled=false\nspark.a 1\n")
    settings = given_settings(str(file), ["spark.a = 2"])
    assert settings == {"spark.my.token": "hunter", "spark.ui.enabled": "false", "spark.a": "2"}
    assert "hunter" not in redact("it says hunter")
    for wrong, reason in ((tmp_path / "none", "No such file"), (tmp_path, "directory")):
        with pytest.raises(ConfigurationError, match=reason):
            given_settings(str(wrong), None)


def test_errors_about_settings_do_not_repeat_secrets(spark):
    with pytest.raises(ConfigurationError) as raised:
        get_session(conf={"spark.driver.my.secret": "hunter 22"})
    assert str(raised.value).startswith(
        f"spark.driver.my.secret must be none, as in the running Spark session, got '{REDACTED}'"
    )
    assert "hunter" not in str(raised.value)


def test_a_capture_without_jobs_names_the_program_but_not_its_arguments(monkeypatch, capsys):
    nothing = CaptureResult([], [], [], [], None, "")
    monkeypatch.setattr(capture, "run_capture", lambda *_, **__: nothing)
    with pytest.raises(SystemExit):
        app(["capture", "--", "true", "hunter"])
    said = capsys.readouterr().err
    assert "true: submitted no job" in said
    assert "hunter" not in said
