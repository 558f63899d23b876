"""Run jobs of `jobs.py` on the real PyFlink: the half of `stream_beside_flink` that its Python executes.

    python run_on_pyflink.py PLAN.json

A line of JSON on standard output for each script and variant. The source watches a folder, and a file comes
when all operators have the watermark of the file before and some checkpoints have completed since. The job
of the first files makes a savepoint and goes on; the other variants start from it.
"""

import json
import re
import runpy
import shutil
import socket
import sys
import time
import traceback
import urllib.request
from contextlib import suppress
from pathlib import Path

from pyflink.common import Configuration, Duration, Row, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)

SHAPES = runpy.run_path(str(Path(__file__).parent / "jobs.py"))  # its functions are pickled by value
RECORD = Types.ROW_NAMED(["user", "amount", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])
SECONDS_FOR_A_FILE = 60.0


def parsed(line):
    record = json.loads(line)
    return Row(record["user"], record["amount"], record["at"])


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


parsed.__module__ = Stamp.__module__ = "__main__"  # pickled by value


class Refused(Exception):
    """Flink does not start the job."""


class Flink:
    """A running job, by its REST API."""

    def __init__(self, port, client):
        self.address, self.client = f"http://127.0.0.1:{port}", client
        self.job = str(client.get_job_id())
        self.seen = {}

    def call(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def of_job(self, path="", body=None, method=None):
        return self.call(f"/jobs/{self.job}{path}", body, method)

    def state(self):
        return self.of_job()["state"]

    def wait_until_running(self):
        _wait(self._running, "the job runs")

    def _running(self):
        try:
            job = self.of_job()
        except OSError:  # not yet there, or gone: the cluster of a job ends with it
            try:
                status = str(self.client.get_job_status().result())
                if status not in ("JobStatus.FAILED", "JobStatus.CANCELED"):
                    return False
            except Exception:
                status = "gone"
            raise Refused(self.end() or status) from None
        if job["state"] in ("FAILED", "FAILING", "CANCELED"):
            raise Refused(self.failure())
        return job["state"] == "RUNNING" and all(one["status"] == "RUNNING" for one in job["vertices"])

    def end(self):
        """Return why the job has ended."""
        try:
            self.client.get_job_execution_result().result()
        except Exception as error:
            return str(error)
        return ""

    def failure(self):
        return self.of_job("/exceptions").get("root-exception") or json.dumps(self.of_job("/exceptions"))

    def has_watermark(self, watermark):
        try:
            job = self.of_job()
        except OSError:
            raise RuntimeError(f"the job ended: {exception_class(self.end())}") from None
        if job["state"] != "RUNNING":
            raise RuntimeError(f"the job is {job['state']}: {self.failure()}")
        for vertex in job["vertices"]:
            found = self.of_job(f"/vertices/{vertex['id']}/watermarks")
            self.seen[vertex["name"]] = [one["value"] for one in found]
            if any(int(one["value"]) < watermark for one in found):
                return False
        # a vertex without an input has none
        return True

    def checkpoint(self):
        self._trigger("/checkpoints", {"checkpointType": "FULL"})

    def savepoint(self, folder):
        done = self._trigger("/savepoints", {"target-directory": folder, "cancel-job": False})
        return done["operation"]["location"]

    def _trigger(self, path, body):
        request = self.of_job(path, body)["request-id"]
        done = {}

        def completed():
            done.update(self.of_job(f"{path}/{request}"))
            return done["status"]["id"] == "COMPLETED"

        _wait(completed, path)
        if "failure-cause" in done.get("operation", {}):
            raise RuntimeError(done["operation"]["failure-cause"]["stack-trace"])
        return done

    def cancel(self):
        with suppress(OSError):  # the cluster of a job ends with it
            self.of_job("?mode=cancel", method="PATCH")


def _wait(done, what):
    until = time.monotonic() + SECONDS_FOR_A_FILE
    while not done():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {SECONDS_FOR_A_FILE:g} s")
        time.sleep(0.02)


def start(script, folder, prefix, half, savepoint=None):
    """Start a job that watches `folder/in`. Raises Refused."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = Configuration()
    settings = {
        "rest.bind-port": str(port),
        "rest.port": str(port),
        "parallelism.default": "1",  # records of a key keep their order; keyed operators have their own
        "execution.checkpointing.interval": "1 d",
        "execution.checkpointing.min-pause": "0 ms",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "restart-strategy.type": "disable",
        "pipeline.auto-watermark-interval": "10 ms",
        "metrics.fetcher.update-interval": "20",
        "python.execution-mode": script["mode"],
        "python.fn-execution.bundle.time": "20",
        "python.client.executable": sys.executable,
        "python.executable": sys.executable,
        "taskmanager.memory.network.max": "64mb",
        "taskmanager.memory.managed.size": "64mb",
    }
    if savepoint is not None:
        settings["execution.state-recovery.path"] = savepoint
        settings["execution.state-recovery.ignore-unclaimed-state"] = str(half["allow"]).lower()
    for name, value in settings.items():
        config.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file://{folder}/in")
    source = source.monitor_continuously(Duration.of_millis(30)).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")
    records = lines.map(parsed, output_type=RECORD).uid("parse")
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(script["lag"]))
    records = records.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))
    records = records.uid("stamps")
    streams = SHAPES["build"](script["shape"], records, SHAPES["Variant"](**half["variant"]))
    for name, stream in streams.items():
        sink = FileSink.for_row_format(f"file://{folder}/out/{name}", Encoder.simple_string_encoder())
        sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        sink = sink.with_output_file_config(OutputFileConfig.builder().with_part_prefix(prefix).build())
        stream.sink_to(sink.build()).uid(f"sink {name}")
    try:
        client = env.execute_async(script["shape"])
    except Exception as error:
        raise Refused(str(error)) from error
    flink = Flink(port, client)
    flink.wait_until_running()
    return flink


def give(flink, script, folder, file):
    """Add a file to the watched folder, and wait until its results are committed."""
    hidden = folder / "in" / f".{file['name']}"
    hidden.write_text(file["text"])
    hidden.rename(folder / "in" / file["name"])
    try:
        _wait(lambda: flink.has_watermark(file["watermark"]), f"watermark of {file['name']}")
    except TimeoutError as error:
        raise TimeoutError(f"{error}; must be {file['watermark']}, got {flink.seen}") from error
    for _ in range(2 if script["mode"] == "thread" else 4):
        time.sleep(0.05)
        flink.checkpoint()


def committed(folder, prefix):
    """Return the lines of the committed files of a job, by sink."""
    lines = {}
    for sink in sorted((folder / "out").iterdir()) if (folder / "out").exists() else ():
        parts = [part for part in sink.iterdir() if part.name.startswith(prefix + "-")]
        lines[sink.name] = sorted(line for part in parts for line in part.read_text().splitlines())
    return lines


def both(first, second):
    return {name: sorted(first.get(name, []) + second.get(name, [])) for name in {**first, **second}}


def exception_class(text):
    """Return the class of the innermost exception of a stack trace, and its message."""
    found = re.findall(
        r"(?:^|Caused by: |: )(?:[a-z0-9]+\.)+([A-Z]\w*(?:Exception|Error))(: [^\n]*)?", text, re.MULTILINE
    )
    return "".join(found[-1])[:600] if found else text[-600:]


def run_script(script, place, report):
    """Run the variants of a script, and report each."""
    folder = place / str(script["number"])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    halves = script["files"][: script["split"]], script["files"][script["split"] :]
    began = time.monotonic()
    flink = start(script, folder, "same", script["first"])
    try:
        for file in halves[0]:
            give(flink, script, folder, file)
        savepoint = flink.savepoint(f"file://{folder}/savepoints")
        first = committed(folder, "same")
        for file in halves[1]:
            give(flink, script, folder, file)
    finally:
        flink.cancel()
    report("same", {"rows": committed(folder, "same"), "seconds": time.monotonic() - began})
    for name, half in script["variants"].items():
        for file in halves[1]:
            (folder / "in" / file["name"]).unlink(missing_ok=True)
        began = time.monotonic()
        result = {}
        try:
            flink = start(script, folder, name, half, savepoint)
            try:
                for file in halves[1]:
                    give(flink, script, folder, file)
            finally:
                flink.cancel()
            result["rows"] = both(first, committed(folder, name))
        except Refused as error:
            result["refused"] = exception_class(str(error))
        except Exception:
            result["error"] = traceback.format_exc()
        report(name, {**result, "seconds": time.monotonic() - began})


def main():
    """Run the scripts of a plan."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    for script in plan["scripts"]:

        def report(variant, result, number=script["number"]):
            print(json.dumps({"number": number, "variant": variant, **result}), flush=True)

        try:
            run_script(script, Path(plan["folder"]), report)
        except Exception:
            report("script", {"error": traceback.format_exc()})


if __name__ == "__main__":
    main()
