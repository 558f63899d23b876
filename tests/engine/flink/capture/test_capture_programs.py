"""Jobs of real programs under Flink 2.3: captured, planned as Flink plans them, and never run."""

import json
import os

import pytest

from penstock.engine.flink.plan_with_flink import FLINK_VERSION, flink_jars

pytestmark = pytest.mark.flink

JOBS = "-o", "jobs.jsonl"

SCRIPT = """
-- a comment; with a semicolon, and a quote: it's
SET 'parallelism.default' = '4';
CREATE TABLE clicks (id BIGINT, page STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE TABLE pages (page STRING, clicks BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE written (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv');
CREATE VIEW counted AS SELECT page, COUNT(*) AS clicks FROM clicks WHERE page <> ';' GROUP BY page;
INSERT INTO pages SELECT * FROM counted;
EXECUTE STATEMENT SET BEGIN
  INSERT INTO pages SELECT * FROM counted;
  INSERT INTO written SELECT id FROM clicks;
END;
RESET 'parallelism.default';
SET 'execution.runtime-mode' = 'batch';
SELECT COUNT(*) FROM clicks;
"""


def test_a_jar_with_several_jobs(capture, jobs_jar, tmp_path):
    """Secrets stay in the JVM, a name is given once, and a cached data set is read by the job after."""
    run, jobs = capture(jobs_jar, *JOBS, "-p", 3, "--verify", "-v", "--", "two-jobs", tmp_path / "written")
    assert run.exit_code == 0, run.output
    assert [job["name"] for job in jobs] == ["twice", "jobs.jar#2", "fills-cache", "reads-cache"]
    assert not (tmp_path / "written").exists()
    assert "planted-secret" not in (tmp_path / "jobs.jsonl").read_text()
    first, _, fills, reads = jobs
    assert (
        first["config"].items()
        >= {
            "penstock.capture.flink-version": FLINK_VERSION,
            "penstock.capture.command": "jobs.jar",
            "penstock.capture.job-number": "1",
            "execution.checkpointing.interval": "10 s",
        }.items()
    )
    assert (first["parallelism"], first["stream_graph"]["checkpointing"]) == (3, True)
    assert [node["keyed"] for node in first["stream_graph"]["nodes"]] == [False, False, True, False]
    mapped = first["stream_graph"]["nodes"][1]
    assert (mapped["function_class"], mapped["output_type"]) == ("Jobs$Writes", "Long")
    (kept,) = (
        edge["persistent_data_set"]
        for edge in fills["stream_graph"]["edges"]
        if "persistent_data_set" in edge
    )
    nodes = reads["stream_graph"]["nodes"]
    assert [node["consumes_data_set"] for node in nodes if "consumes_data_set" in node] == [kept]
    assert "Jobs$$Lambda" in [node.get("function_class") for node in nodes]
    assert run.stderr.count(": ok") == 4


def test_a_program_that_fails_leaves_no_file_unless_asked_for(capture, jobs_jar, tmp_path):
    before = json.dumps({"name": "before", "transformations": []})
    (tmp_path / "jobs.jsonl").write_text(before + "\n")
    program = (jobs_jar, *JOBS, "--append", "--", "fails", tmp_path / "written")
    run, jobs = capture(*program)
    assert (run.exit_code, [job["name"] for job in jobs]) == (1, ["before"])
    assert "ended with exit code 1, after 1 job" in run.stderr
    assert "no config server" in run.stderr
    assert "\tat " not in run.stderr
    run, jobs = capture("--partial", *program)
    assert (run.exit_code, [job["name"] for job in jobs]) == (0, ["before", "jobs.jar#1"])
    assert "not complete: " in run.stderr
    assert "stream_graph" in jobs[1]


def test_what_would_run_jobs_by_itself_is_refused_by_name(capture, jobs_jar, tmp_path):
    """Even if the program catches what it is told."""
    run, jobs = capture(jobs_jar, *JOBS, "--", "clusters", tmp_path / "written")
    assert (run.exit_code, jobs) == (1, [])
    assert run.stderr.count("org.apache.flink.runtime.minicluster.MiniCluster itself, which would run") == 2
    assert "org.apache.flink.client.program.rest.RestClusterClient itself" in run.stderr
    assert not (tmp_path / "written").exists()


def test_a_command_whose_flink_is_in_loaders_of_its_own(capture, classes, java, tmp_path):
    """The classes of the agent that see Flink are copied into each of them."""
    flink = [str(jar) for jar in sorted(flink_jars().glob("*.jar"))]
    own = os.pathsep.join([str(classes), *flink])
    command = [java, f"-Djars.of.own.loader={own}", "-cp", own, "Jobs", "own-loaders", tmp_path / "written"]
    run, jobs = capture(*JOBS, "--", *command)
    assert run.exit_code == 0, run.output
    assert [job["name"] for job in jobs] == ["own-loader", "java#1"]
    assert not (tmp_path / "written").exists()


def test_a_sql_script_without_a_gateway(capture, tmp_path):
    """PyPI has no gateway, which Flink's own SQL client needs."""
    (tmp_path / "script.sql").write_text(SCRIPT.format(folder=tmp_path / "written"))
    run, jobs = capture("script.sql", *JOBS, "--verify")
    assert run.exit_code == 0, run.output
    assert [(job["parallelism"], job["stream_graph"]["job_type"]) for job in jobs] == [
        (4, "STREAMING"),
        (4, "STREAMING"),
        (1, "BATCH"),
    ]
    assert jobs[1]["name"].endswith("pages,default_catalog.default_database.written")
    assert not (tmp_path / "written").exists()


def test_a_statement_that_fails_is_told_with_its_line(capture, tmp_path):
    (tmp_path / "script.sql").write_text("\nSELECT 1;\n\nSELECT * FROM nowhere;\n")
    run, jobs = capture("script.sql", *JOBS)
    assert (run.exit_code, jobs) == (1, [])
    assert "the statement on line 4 fails" in run.stderr
    assert "Object 'nowhere' not found" in run.stderr


def test_observed_jobs_run(capture, jobs_jar, tmp_path):
    """Where they run is Flink's to say: here, in a cluster inside of the JVM."""
    run, jobs = capture(
        jobs_jar, *JOBS, "--observe", "-D", "execution.target=local", "--", "fails", tmp_path / "written"
    )
    assert "no config server" in run.stderr
    assert (tmp_path / "written").read_text() == "a job ran"
    assert jobs == []
