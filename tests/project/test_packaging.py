"""What a wheel holds, built from the checkout and from the source archive."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from penstock.engine.spark.class_archive import write_wheel
from penstock.engine.spark.spark_conf import spark_conf_dir

pytestmark = pytest.mark.flink

ROOT = spark_conf_dir().parent
PACKAGES = ("engine", "operators", "plans")


def build(target: str, source: Path, out: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (archive,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def test_clusters_are_sent_what_the_wheel_holds(wheel, tmp_path):
    write_wheel(tmp_path / "penstock.zip")
    sent, installed = (
        {name for name in zipfile.ZipFile(archive).namelist() if ".dist-info/" not in name}
        for archive in (tmp_path / "penstock.zip", wheel)
    )
    assert sent == installed - {"penstock/plans/frames/compiled_loops.pickle"}  # for one Python


def test_wheel_holds_packages_settings_and_examples(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {
        str(Path(inside, path.relative_to(ROOT)))
        for package, inside in (("penstock", ""), *((name, "penstock") for name in PACKAGES))
        for pattern in ("*.py", "*.java")
        for path in (ROOT / package).rglob(pattern)
    }
    assert "penstock/engine/flink/PlanTopologies.java" in modules
    assert modules <= names
    assert {
        "penstock/plans/frames/compiled_loops.pickle",
        "penstock/plans/py.typed",
        "penstock/py.typed",
        "penstock/engine/spark-conf/spark-defaults.conf",
        "penstock/engine/spark-conf/log4j2.properties",
        "penstock/engine/spark-conf/test/spark-defaults.conf",
        "penstock/engine/spark-conf/test/log4j2.properties",
        "penstock/engine/examples/examples.jsonl",
        "penstock/engine/measure/bench/nexmark.jsonl.gz",
        "penstock/engine/measure/bench/page.html.j2",
        "penstock/engine/measure/bench/captured.jsonl.gz",
        "penstock/engine/flink/penstock-capture.jar",
        "penstock_spark-0.1.0.dist-info/licenses/LICENSE",
    } <= names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"penstock", "penstock_spark-0.1.0.dist-info"}


def test_wheel_from_the_source_archive_is_the_same(wheel, tmp_path):
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert (source / "docs" / "architecture.md").read_text() == (ROOT / "ARCHITECTURE.md").read_text()
    rebuilt = build("wheel", source, tmp_path / "wheel")
    assert wheel.read_bytes() == rebuilt.read_bytes()


def test_settings_and_console_command_work_from_an_unpacked_wheel(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from penstock.engine.spark.spark_conf import delta_coordinates, spark_conf_dir\n"
        "print(spark_conf_dir(), delta_coordinates().version)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60
    )
    assert done.stdout == f"{tmp_path}/site/penstock/engine/spark-conf 4.4.0\n"
    entry_points = (tmp_path / "site" / "penstock_spark-0.1.0.dist-info" / "entry_points.txt").read_text()
    for name in ("penstock", "penstock-spark"):  # the latter for `uvx penstock-spark`
        assert f"\n{name} = penstock.engine.commands.main:main" in entry_points
