"""One pipeline in a plain local session, over Spark Connect and on a standalone cluster: equal results."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.engine.embedding.surface import CALLS, WITHOUT_SESSION, public_names
from tests.engine.run.runtime.spark_cluster import spark_cluster

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
TOKEN = "of this test"
BOTH = [True, True]
EXPECTED: dict[str, Any] = {
    "plans": {
        "beside": ["topology_id", "topology", "team", "prio.x", "id"],
        "edges": [10, 0, 0],
        "graph": 1,
        "in blocks": [1, "planner blocks", []],
        "one column more": "topologies: columns must be among name, parallelism, max_parallelism, chaining, "
        "config, transformations, stream_graph, got 'team'",
        "planned": [5, 0, "planner process: few enough for this process"],
        "same": True,
        "teams": [["team0", 3], ["team1", 2]],
        "version": 1,
    },
    "streams": {
        "calls": 40,
        "cannot be sent": [[True] * 3, [True] * 3, 40],
        "error": [True, True, True, True, False],
        "executed": 780,
        "first frame": ["pipeline.py"],
        "late and main": [20, 20, 20],
        "metrics": {"seen": 40, "sizes": {"count": 40, "max": 39, "min": 0, "sum": 780}},
        "nested": True,
        "observed": [
            40,
            {"seen": 40, "sizes": {"count": 40, "max": 39, "min": 0, "sum": 780}},
            40,
            40,
            20,
            39,
            40,
            1,
            True,
            ["value"],
        ],
        "order": BOTH,
        "schemas": BOTH,
        "transform": [["a", 273], ["b", 507]],
    },
    "names": {
        "no rows": BOTH,
        "no rows keyed": BOTH,
        "none": BOTH,
        "others": BOTH,
        "twice": BOTH,
        "value": BOTH,
        "value not null": BOTH,
        "value of a struct": BOTH,
    },
    "types": {"batches": BOTH, "filter": BOTH, "given": BOTH, "values": [], "with nulls": BOTH},
}


def pipeline(*session: str, script: str = "pipeline", **environment: str) -> dict[str, Any]:
    """What a script finds in a session, started without an activated environment."""
    own = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_CONF_DIR", "PYSPARK_PYTHON")
    }
    own |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), "TZ": "UTC", **environment}
    command = [sys.executable, str(Path(__file__).with_name(f"{script}.py")), *session]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, env=own)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, Any] = {}
    for line in lines:
        found |= json.loads(line)
    return found


@contextmanager
def connect_server(log: Path) -> Iterator[str]:
    """The address of a server of Spark Connect, from the pip package."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for setting in (
        "spark.ui.enabled=false",
        "spark.connect.grpc.binding.port=0",
        "spark.sql.session.timeZone=America/New_York",
        "spark.sql.shuffle.partitions=8",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
    ):
        command += ["--conf", setting]
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(log.parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN,
        "TZ": "UTC",
    }
    with log.open("wb") as file:
        server = subprocess.Popen(
            [*command, "spark-internal"], env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + 180
        while not (found := re.search(r"server started at: \S+:(\d+)", log.read_text(errors="replace"))):
            assert server.poll() is None, log.read_text(errors="replace")[-3_000:]
            assert time.monotonic() < end, log.read_text(errors="replace")[-3_000:]
            time.sleep(0.2)
        yield f"sc://localhost:{found.group(1)}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect") / "server.log") as url:
        yield url


def test_a_plain_session_whose_environment_is_not_activated() -> None:
    assert pipeline("plain", "local[2]") == EXPECTED


def test_spark_connect(server: str) -> None:
    assert pipeline("connect", server, SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN) == EXPECTED


def test_every_public_name_is_called_over_spark_connect() -> None:
    called = {name.split(" ")[0] for name in CALLS}
    assert public_names() == called | WITHOUT_SESSION


def test_every_public_name_works_over_spark_connect_or_says_why_not(server: str) -> None:
    found = pipeline("connect", server, script="surface", SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN)
    assert found == {
        "penstock.foreach_batch": "foreach_batch needs a classic session, got one of Spark Connect",
        "penstock.bench": "suites must be names of suites or paths of topology files, got DataFrame",
        "penstock.import_graph": "graph must be a graph of networkx or igraph, got DataFrame",
        "penstock.sweep": "spark must be a session of classic Spark, whose JVM a sweep needs, got one of "
        "Spark Connect",
        "Generated.write": "write() needs Arrow tables, got tables of Spark",
    }


STOPPED = "the Spark session has been stopped, or has ended"


def said_of_a_stopped_session(found: dict[str, Any]) -> dict[str, str]:
    """What is said of each call; those that need no session are fine, and all else says that it has ended."""
    said: dict[str, str] = found["found"]
    assert {name: text for name, text in said.items() if name.startswith("fine: ") and text} == {}
    assert [
        text for name, text in said.items() if not name.startswith("fine: ") and "stopped" not in text
    ] == []
    assert [text for text in said.values() if "raw " in text] == []
    assert found["left"] == ["again", "started", "store"] or found["left"] == ["again", "store"]
    return said


def test_uses_of_a_stopped_session_are_one_sentence() -> None:
    said = said_of_a_stopped_session(pipeline("plain", "local[2]", script="stopped_session"))
    assert (said["write"], said["during"]) == (f"write: {STOPPED}", f"plan: {STOPPED}")
    assert said["nodes"] == f"nodes: {STOPPED}"


def test_uses_of_a_stopped_session_of_spark_connect_are_one_sentence(server: str) -> None:
    found = pipeline("connect", server, script="stopped_session", SPARK_CONNECT_AUTHENTICATE_TOKEN=TOKEN)
    assert said_of_a_stopped_session(found)["metrics"] == f"metrics: {STOPPED}"


def test_a_standalone_cluster(tmp_path: Path) -> None:
    """What rows look like does not depend on where they are: that is for the other sessions."""
    parts = ("plans", "streams")
    with spark_cluster(tmp_path, workers=2, cores=1) as cluster:
        found = pipeline("cluster", cluster.url, *parts, PYSPARK_PYTHON=sys.executable)
        assert found == {part: EXPECTED[part] for part in parts}
