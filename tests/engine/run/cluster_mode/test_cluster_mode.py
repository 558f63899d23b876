"""Submissions in cluster mode, and to yarn and k8s in client mode, against golden text; they are not run.

With WRITE_GOLDEN=1 the files in golden/ are written anew.
"""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.commands.main import main
from penstock.engine.configuration.effective_configuration import NOTHING_CONFIGURED
from penstock.engine.output import redaction
from penstock.engine.run.clusters import cluster_submission as submit_to_cluster
from penstock.engine.run.clusters.cluster_submission import ClusterScript, write_submission
from penstock.engine.run.runtime import run_environment
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.run_context import RunContext, SessionSettings
from penstock.engine.spark.class_archive import write_wheel
from penstock.engine.spark.start_settings import start_settings, submit_arguments
from tests.as_command import as_command

GOLDEN = Path(__file__).parent / "golden"
UNPACKED = (("penstock", "penstock-wheel"), ("penstock-job", "penstock-job"))
KUBERNETES = "k8s://https://api.example:6443"
SPARK_SUBMIT = """#!/bin/sh
cp -r "$(dirname "$2")" "$SUBMITTED"
echo "$@" > "$SUBMITTED/arguments"
echo "	at org.apache.spark.Deploy.run(Deploy.scala:1)"
echo "Submitted application application_1700000000000_0042"
exit ${SPARK_SUBMIT_EXIT:-0}
"""
SCRIPT = """
from penstock import engine
from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
print(engine.__file__)
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1], Types.LONG()).print()
env.execute()
"""


@pytest.fixture(autouse=True)
def client(tmp_path, monkeypatch):
    """A folder with a script and its files, and a spark-submit that keeps what it is given."""
    spark_submit = tmp_path / "spark-submit"
    spark_submit.write_text(SPARK_SUBMIT)
    spark_submit.chmod(0o755)
    monkeypatch.setattr(submit_to_cluster, "spark_submit", lambda: str(spark_submit))
    monkeypatch.setattr(submit_to_cluster, "require_java", lambda: None)
    monkeypatch.setattr(redaction, "_secret_values", set())
    monkeypatch.setenv("SUBMITTED", str(tmp_path / "submitted"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for name in ("SPARK_CONF_DIR", "PENSTOCK_CONF_DIR", "PENSTOCK_JARS", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(SCRIPT)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/helper.py").write_text("HELP = 1\n")
    (tmp_path / "data.zip").write_bytes(b"PK\5\6" + bytes(18))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/a.yaml").write_text(
        "taskmanager.numberOfTaskSlots: 2\npipeline.name: counts\npython.archives: data.zip#data\n"
        "spark.executor.memory: 2g\nspark.archives: hdfs:///env.tar.gz#environment\n"
    )
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """Call `penstock run` in this process: gives exit code, standard output and standard error."""

    def call(*arguments):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["penstock", "run", *map(str, arguments)])
        with as_command(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


def described(folder):
    """A submission as text: the command line, the settings, the files, and what the driver is told."""
    with zipfile.ZipFile(folder / "penstock-job.zip") as job:
        texts = {name: job.read(name).decode() for name in ("command.json", "conf/configuration.yaml")}
        names = job.namelist()
    given = (folder / "arguments").read_text().split()
    where = str(Path(given[1]).parent)
    files = sorted(path.name for path in folder.iterdir() if path.name != "arguments")
    parts = {
        "command line": "spark-submit " + " ".join(given),
        "files": "\n".join(files),
        "spark.properties": "\n".join(sorted((folder / "spark.properties").read_text().splitlines())),
        "penstock-job.zip": "\n".join(sorted(names)),
        **texts,
    }
    return "\n\n".join(f"# {name}\n{text}" for name, text in parts.items()).replace(where, "FOLDER") + "\n"


def compare(name, found):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("master", ["yarn", KUBERNETES])
def test_a_submission_in_cluster_mode(run, client, master):
    of_kubernetes = ["spark.kubernetes.container.image=own", "spark.kubernetes.file.upload.path=s3a://b/up"]
    conf = [f"--conf={one}" for one in of_kubernetes if master == KUBERNETES]
    code, out, err = run(
        *("--deploy-mode", "cluster", "-d", "-m", master, "-p", "4", "--config-dir", "conf", *conf),
        *("-D", "restart-strategy.type=none", "-D", "security.ssl.rest.key-password=hunter2"),
        *(
            "--conf",
            "spark.my.password=hunter3",
            "--py-files",
            "lib,hdfs:///other.py",
            "--to",
            "s3a://bucket/plans",
        ),
        *("job.py", "--token=hunter4", '"; rm -rf <script>'),
    )
    assert (code, out) == (0, "application_1700000000000_0042\n"), err
    assert "Deploy.scala" not in err
    submitted = client / "submitted"
    assert "hunter" not in (submitted / "arguments").read_text() + out + err
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in submitted.glob("*.properties"))
    compare(f"cluster-{master.partition(':')[0]}", described(submitted))


@pytest.mark.parametrize(
    ("master", "key", "name", "application"),
    [
        ("yarn", "spark.yarn.dist.archives", "--class", "yarn.YarnClusterApplication"),
        (KUBERNETES, "spark.archives", "--main-class", "k8s.submit.KubernetesClientApplication"),
    ],
)
def test_spark_takes_a_submission_for_what_it_is(spark, client, master, key, name, application):
    """What Spark's own SparkSubmit makes of the arguments, up to the class that would talk to the cluster."""
    given = {"spark.jars.packages": "", "spark.kubernetes.container.image": "own"}
    given["spark.kubernetes.file.upload.path"] = "s3a://b/up"
    script = ClusterScript(master, "job.py", [], ["-p2"], NOTHING_CONFIGURED, given, None, detached=True)
    submission = write_submission(client, script)
    jvm = spark._jvm
    as_scala = jvm.org.apache.spark.api.python.PythonUtils
    arguments = jvm.org.apache.spark.deploy.SparkSubmitArguments(
        as_scala.toSeq(list(submission.arguments)), as_scala.toScalaMap({"HADOOP_CONF_DIR": str(client)})
    )
    prepared = jvm.org.apache.spark.deploy.SparkSubmit().prepareSubmitEnvironment(
        arguments, jvm.scala.Option.empty()
    )
    assert prepared._4() == f"org.apache.spark.deploy.{application}"
    driver = (client / "penstock_driver.py").as_uri().replace("///", "/")
    wanted = f"--primary-py-file {driver} {name} org.apache.spark.deploy.PythonRunner"
    assert prepared._1().mkString(" ") == wanted
    archives = prepared._3().get(key).replace("file://", "file:").split(",")
    assert archives == [f"file:{client}/{one}.zip#{two}" for one, two in UNPACKED]


@pytest.mark.parametrize("master", ["yarn", KUBERNETES])
def test_a_submission_in_client_mode(monkeypatch, master):
    """What a job of three slots, two to a TaskManager, starts its Spark with."""
    monkeypatch.setattr(run_environment, "any_session", lambda **asked: asked)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    conf = {"spark.my.password": "hunter2", "spark.executor.cores": "2"}
    context = RunContext(spark=SessionSettings(master, conf))
    slots = {"required_slots": pa.table({"slots": [3]})}
    asked: Any = run_environment.run_session(context, "job", CompiledJob((), ()), slots)
    settings = start_settings(asked["master"], asked["conf"], "penstock")
    with submit_arguments(settings) as text:
        arguments = shlex.split(text)
        properties = Path(arguments[1])
        found = "".join(sorted(properties.read_text().splitlines(keepends=True)))
        assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    key = "spark.yarn.dist.archives" if master == "yarn" else "spark.archives"
    wheel = Path(settings[key].partition("#")[0])
    line = f"spark-submit {text.replace(str(properties), 'spark.properties')}"
    shown = f"# command line\n{line}\n\n# spark.properties\n{found}".replace(str(wheel.parent), "FOLDER")
    compare(f"client-{master.partition(':')[0]}", shown.replace(os.environ["HOME"], "HOME"))
    assert zipfile.is_zipfile(wheel)
    assert not any("archives" in name for name in start_settings("spark://host:7077", {}, "penstock"))


@pytest.mark.slow
def test_the_driver_runs_what_was_shipped(tmp_path):
    """Where Spark unpacks the archives, `penstock` runs out of them, with its settings and its version."""
    write_wheel(tmp_path / "penstock.zip")
    zipfile.ZipFile(tmp_path / "penstock.zip").extractall(tmp_path / "penstock-wheel")
    assert (tmp_path / "penstock-wheel/penstock/engine/spark-conf/spark-defaults.conf").is_file()
    assert list((tmp_path / "penstock-wheel").glob("penstock_spark-*.dist-info/METADATA"))
    (tmp_path / "penstock-job").mkdir()
    (tmp_path / "penstock-job/command.json").write_text(json.dumps(["info", "job.py"]))
    shutil.copy("penstock-wheel/penstock/engine/spark/submitted_driver.py", "penstock_driver.py")
    done = subprocess.run([sys.executable, "penstock_driver.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "penstock-wheel/penstock/engine/__init__.py") in done.stderr  # the script's output


def test_an_application_that_fails(run, monkeypatch):
    monkeypatch.setenv("SPARK_SUBMIT_EXIT", "3")
    code, out, err = run("--deploy-mode", "cluster", "-m", "yarn", "job.py")
    assert (code, out) == (1, "")
    assert "application application_1700000000000_0042 has failed" in err
    assert "yarn logs -applicationId application_1700000000000_0042" in err


def test_a_cluster_that_cannot_be_reached(run, client):
    refused = "java.net.ConnectException: Connection refused"
    lines = [f'Exception in thread "main" {refused}', "\tat a.B.c(D.scala:1)", "\t... 27 more"]
    (client / "spark-submit").write_text(
        "#!/bin/sh\n" + "".join(f"echo '{one}'\n" for one in lines) + "exit 1"
    )
    code, _, err = run("--deploy-mode", "cluster", "-m", "yarn", "job.py")
    assert code == 1
    assert f"cluster mode on yarn: spark-submit has failed: {refused}\n" in err
    assert not any(one in err for one in lines[1:])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-m", "spark://host:7077"], "Spark's standalone cluster mode takes no Python applications"),
        (["-m", "local[2]"], "must be yarn or k8s://…, got local[2]"),
        ([], "must be yarn or k8s://…, got local"),
        (["-m", "yarn", "--to", "plans"], "--to=plans must be a URL, or an absolute path"),
        (["-m", "yarn", "--py-files", "absent.py"], "python.files absent.py: no such file"),
        (["-m", KUBERNETES], "spark.kubernetes.file.upload.path is not set"),
        (
            ["-m", "yarn", "--conf", "spark.driver.extraJavaOptions=-Dmy.password=hunter2"],
            "spark.driver.extraJavaOptions holds a secret",
        ),
    ],
)
def test_what_cannot_be_submitted(run, client, options, said):
    code, _, err = run("--conf", "spark.submit.deployMode=cluster", *options, "job.py")
    assert code == 2, err
    assert said in err
    assert "hunter" not in err
    assert not (client / "submitted").exists()


def test_yarn_needs_hadoops_configuration(run, monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    code, _, err = run("--deploy-mode", "cluster", "-m", "yarn", "job.py")
    assert code == 2
    assert "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set" in err
