"""Check that every row of a stream arrives once, whatever is killed by kill -9.

    python -m benchmarks.stream_kills [KILLS] [--seed N] [--on local|cluster|both|process] [--keep FOLDER]

A query counts records by key and by key and window, through `penstock.foreach_batch`, into files, into a
Delta table, and onto the terminal. Each point adds files of input, starts a driver that goes on with the
query, and kills a process: the driver, its JVM, a Python worker, or one of two executors of a standalone
cluster. It does so at a point of `benchmarks.stream_to_kill`, or at a random moment. A driver whose worker or
executor was killed must end the query by itself. A last driver is not killed. A line describes each kill; the
exit code is 1 unless files and table have each count of each key once, the windows are complete, each row was
printed at least once, and the state has all counts.

On `process`, batches run in a process without Spark, which is killed at one of its calls that change files.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.stream_to_kill import IN_DRIVER, IN_WORKERS
from penstock import open_state
from tests.engine.run.runtime.spark_cluster import spark_cluster
from tests.engine.run.streams import killed_batches

KEYS, RECORDS, FILES = 20, 200, 3
_SECONDS_FOR_A_DRIVER = 300.0
_MOST_PASSES = {"record": 400, "step": 250, "print": 300, "clean one": 10, "rename": 8, "open segment": 16}
"""How often a point is passed at most before the kill; others are passed up to twice before."""

_SURVIVED = ("worker", "executor")
"""Processes whose loss a driver survives."""

_MOST_CALLS = 500
"""Calls that change files in three batches, about."""

Rows = Counter[tuple[str, int]]


def main() -> None:
    """Print a line for each kill, and whether all rows arrived once."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("kills", type=int, nargs="?", default=20)
    arguments.add_argument("--seed", type=int, default=62)
    arguments.add_argument("--on", choices=("local", "cluster", "both", "process"), default="both")
    arguments.add_argument("--keep", type=Path, help="a new folder for all files, which stay")
    chosen = arguments.parse_args()
    draw = random.Random(chosen.seed)
    print(f"seed {chosen.seed}, on {chosen.on}")
    with _folder(chosen.keep) as folder:
        if chosen.on == "process":
            sys.exit(_kill_calls(folder, draw, chosen.kills, chosen.seed))
        stream = _Stream(folder, draw)
        places = {"local": ["local"], "cluster": ["cluster"], "both": ["local", "cluster"]}[chosen.on]
        faults = []
        for place in places:
            kills = chosen.kills // len(places) + (place == "local" and chosen.kills % len(places))
            with _master(place, folder) as master:
                faults += stream.kill(kills, master, on_cluster=place == "cluster")
                faults += stream.run(master, [], "the last driver")
        faults += stream.faults()
        for fault in faults:
            print("FAULT", fault)
    print(f"seed {chosen.seed}: {stream.kills} kills, {len(faults)} faults")
    sys.exit(int(bool(faults)))


def _kill_calls(folder: Path, draw: random.Random, kills: int, seed: int) -> int:
    batch = done = 0
    while done < kills:
        call, before = draw.randint(1, _MOST_CALLS), batch
        last = batch + 2
        batch = killed_batches.live(folder, batch, last, call)
        done += batch <= last
        end = f"killed in batch {batch}" if batch <= last else "not reached"
        print(f"kill {done:>3}: from batch {before}, at call {call}: {end}", flush=True)
    killed_batches.live(folder, batch, batch + 2, 0)
    faults = killed_batches.faults(folder, batch + 3)
    for fault in faults:
        print("FAULT", fault)
    print(f"seed {seed}: {done} kills, {len(faults)} faults")
    return int(bool(faults))


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="penstock-stream-kills-", ignore_cleanup_errors=True) as place:
        yield Path(place)


@contextmanager
def _master(place: str, folder: Path) -> Iterator[str]:
    if place == "local":
        yield "local[2,4]"
        return
    of_cluster = folder / "cluster"
    of_cluster.mkdir()
    environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    with spark_cluster(of_cluster, workers=2, cores=1, environment=environment) as cluster:
        yield cluster.url


class _Stream:
    """A query in a folder, and the rows that it must have written."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.kills = 0
        self._folder, self._draw = folder, draw
        self._keys: Counter[str] = Counter()
        self._windows: Counter[tuple[str, int]] = Counter()
        self._files = 0
        self._printed: Rows = Counter()
        (folder / "input").mkdir()

    def kill(self, kills: int, master: str, *, on_cluster: bool) -> list[str]:
        """Kill this many processes more; return faults of drivers."""
        faults = []
        wanted = self.kills + kills
        while self.kills < wanted:
            orders = [self._order(on_cluster=on_cluster)]
            if orders[0]["target"] in _SURVIVED and orders[0]["point"] != "moment":
                orders += [self._order_of_worker(on_cluster=on_cluster) for _ in range(FILES)]
            for _ in range(len(orders) + FILES - 1):
                self._add_input()
            faults += self.run(master, orders, f"kill {self.kills + 1:>3}")
        return faults

    def _add_input(self) -> None:
        rows = []
        for place in range(RECORDS):
            key, time_ = f"key{self._draw.randrange(KEYS)}", self._files * 1000 + place * 5
            self._keys[key] += 1
            self._windows[key, time_ // 500 * 500 + 500] += 1
            rows.append(json.dumps({"key": key, "at": time_}) + "\n")
        unfinished = self._folder / "unfinished"
        unfinished.write_text("".join(rows))
        os.utime(unfinished, (1_700_000_000 + self._files,) * 2)  # Spark reads the oldest first
        unfinished.rename(self._folder / "input" / f"{self._files:06d}.json")
        self._files += 1

    def _order(self, *, on_cluster: bool) -> dict[str, object]:
        draw = self._draw
        in_workers = draw.random() < (0.75 if on_cluster else 0.4)
        if draw.random() < 0.25:
            targets = ["executor", "worker", "driver"] if on_cluster else ["driver", "jvm", "worker"]
            return {"point": "moment", "after": round(draw.uniform(0, 4), 2), "target": draw.choice(targets)}
        if in_workers:
            order = self._order_of_worker(on_cluster=on_cluster)
            return order if on_cluster else {**order, "target": draw.choice(["worker", "jvm", "driver"])}
        point = draw.choice(list(IN_DRIVER))
        target = "driver" if on_cluster or draw.random() < 0.75 else "jvm"
        return {"point": point, "after": draw.randrange(_MOST_PASSES.get(point, 3)), "target": target}

    def _order_of_worker(self, *, on_cluster: bool) -> dict[str, object]:
        point = self._draw.choice(list(IN_WORKERS))
        target = self._draw.choice(["executor", "executor", "worker"]) if on_cluster else "worker"
        return {"point": point, "after": self._draw.randrange(_MOST_PASSES.get(point, 3)), "target": target}

    def run(self, master: str, orders: list[dict[str, object]], title: str) -> list[str]:
        """Run a driver, and kill what the orders say, each in a batch; print the kills, return faults."""
        for name in ("kill", "killed"):
            (self._folder / name).unlink(missing_ok=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.stream_to_kill", str(self._folder), master]
        with (self._folder / "errors").open("ab") as errors:
            errors.write(f"\n--- {title} {orders}\n".encode())
            errors.flush()
            place = errors.tell()
            if orders:
                self._place(orders[0])
            driver = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True, text=True
            )
            batches, done = self._watch(driver, orders)
        self.kills += len(done)
        seconds = time.monotonic() - began
        if orders:
            what = ", ".join(f"{each['target']} at {each['point']!r} +{each['after']}" for each in done)
            print(
                f"{title}: {what or f'not reached: {orders[0]}'}; {batches} batches begun, "
                f"exit code {driver.returncode}, {seconds:.0f} s",
                flush=True,
            )
        must_end = all(each["target"] in _SURVIVED for each in done)
        if seconds > _SECONDS_FOR_A_DRIVER or (must_end and driver.returncode):
            with (self._folder / "errors").open("rb") as errors:
                errors.seek(place)
                print(errors.read().decode(errors="replace")[-3000:])
            return [f"{title}: the driver has failed, or did not end ({orders})"]
        return []

    def _place(self, order: dict[str, object]) -> None:
        """Let the processes of the driver see an order, unless this process kills at a moment."""
        if order["point"] != "moment":
            unfinished = self._folder / "unfinished"
            unfinished.write_text(json.dumps({**order, "id": str(time.time_ns())}))
            unfinished.rename(self._folder / "kill")

    def _watch(
        self, driver: "subprocess.Popen[str]", orders: list[dict[str, object]]
    ) -> tuple[int, list[dict[str, object]]]:
        """Read the lines of a driver; return how many batches it began, and the orders that were done."""
        timer = threading.Timer(_SECONDS_FOR_A_DRIVER, lambda: os.killpg(driver.pid, signal.SIGKILL))
        timer.start()
        waiting, done = list(orders), list[dict[str, object]]()
        killed = self._folder / "killed"
        batches = 0

        def note() -> None:
            if waiting and killed.exists():
                killed.unlink()
                done.append(waiting.pop(0))
                if waiting:
                    self._place(waiting[0])

        assert driver.stdout is not None
        try:
            for line in driver.stdout:
                words = line.split()
                if "row" in words:
                    words = words[words.index("row") :]
                    if len(words) == 3 and line.endswith("\n"):
                        self._printed[words[1], int(words[2])] += 1
                if line.startswith("batch"):
                    batches += 1
                    note()
                    if waiting and waiting[0]["point"] == "moment":
                        time.sleep(float(str(waiting[0]["after"])))
                        if self._kill(driver, str(waiting[0]["target"])):
                            killed.touch()
                            note()
            with suppress(subprocess.TimeoutExpired):
                driver.wait(timeout=60)
        finally:
            timer.cancel()
            # the JVM and the workers of a killed driver, which are processes of its session
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        note()
        return batches, done

    def _kill(self, driver: "subprocess.Popen[str]", target: str) -> bool:
        if target == "driver":
            pids = [driver.pid]
        elif target == "jvm":
            pids = [pid for pid in _descendants(driver.pid) if _command(pid)[:1] == ["java"]]
        else:
            pids = []
            for _ in range(100):  # workers start with the first batch
                pids = self._workers() if target == "worker" else self._executors()
                if pids or driver.poll() is not None:
                    break
                time.sleep(0.1)
        if not pids or driver.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.kill(self._draw.choice(pids), signal.SIGKILL)
            return True
        return False

    def _workers(self) -> list[int]:
        """Return the Python workers of this stream, which are below its driver, or its executors."""
        above = [pid for pid in _descendants(os.getpid()) if _command(pid)[:1] == ["java"]]
        below = {child for pid in above for child in _descendants(pid)}
        return sorted(pid for pid in below if any("daemon" in part for part in _command(pid)))

    def _executors(self) -> list[int]:
        name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        return sorted(pid for pid in _descendants(os.getpid()) if name in _command(pid))

    def faults(self) -> list[str]:
        """Return the differences between the rows in the sinks, the state, and what must be there."""
        folder = self._folder
        wanted = Counter((key, count) for key, most in self._keys.items() for count in range(1, most + 1))
        table = DeltaTable(folder / "table").to_pyarrow_table().to_pylist()
        found = {
            "files": Counter((row["key"], row["count"]) for row in _lines(folder / "counts")),
            "table": Counter((row["key"], row["count"]) for row in table),
        }
        faults = []
        for name, rows in found.items():
            lost, twice = sum((wanted - rows).values()), sum((rows - wanted).values())
            print(f"{name}: {sum(rows.values()):,} rows, {lost} lost, {twice} twice")
            faults += [f"{name}: {lost} lost, {twice} twice"] if lost or twice else []
        # the last window is still open
        closed = {place: count for place, count in self._windows.items() if place[1] < self._files * 1000}
        rows_of_windows = [(row["key"], row["until"], row["count"]) for row in _lines(folder / "windows")]
        expected = sorted((key, until, count) for (key, until), count in closed.items())
        print(f"windows: {len(rows_of_windows):,} rows, {len(expected):,} expected")
        if sorted(rows_of_windows) != expected:
            faults.append("windows differ")
        missing, wrong = (wanted - self._printed).total(), len(self._printed.keys() - wanted.keys())
        again = (self._printed - wanted).total()
        print(f"printed: {missing} not, {wrong} wrong, {again:,} again by repeated batches")
        faults += [f"{missing} rows not printed, {wrong} wrong"] if missing or wrong else []
        state = open_state(folder / "state").table("counts").to_pylist()
        if {row["key"]: row["value"] for row in state} != dict(self._keys):
            faults.append("the state has other counts")
        left = [
            file.relative_to(folder)
            for name in ("counts", "windows", "table", "state")
            for file in (folder / name).rglob("*")
            if file.name.startswith(".") or ".penstock" in str(file.relative_to(folder))
        ]
        print(f"files that are left: {len(left)} {sorted(map(str, left))[:5]}")
        size = sum(file.stat().st_size for file in (folder / "state").rglob("*") if file.is_file())
        print(f"state: {len(list((folder / 'state' / 'segments').iterdir()))} segments, {size:,} bytes")
        return faults


def _lines(folder: Path) -> list[dict[str, object]]:
    files = folder.glob("*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _descendants(pid: int) -> list[int]:
    parents = {}
    for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError, IndexError):
            stat = Path(f"/proc/{process}/stat").read_text()
            parents[process] = int(stat.rsplit(")", 1)[1].split()[1])
    found = [pid]
    for ancestor in found:  # grows meanwhile
        found += [process for process, parent in parents.items() if parent == ancestor]
    return found[1:]


def _command(pid: int) -> list[str]:
    """Return the command of a process: the name of its program, then its arguments."""
    try:
        first, *others = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []
    return [os.path.basename(first), *others]


if __name__ == "__main__":
    main()
