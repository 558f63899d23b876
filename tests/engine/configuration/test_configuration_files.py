"""What a configuration directory may hold, and what is said of files and keys that are wrong."""

import os
from pathlib import Path

import pytest

from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.configuration.load_configuration import LARGEST_BYTES, read_yaml_settings
from penstock.engine.configuration.merge_settings import OPTIONS
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_options import OPTIONS as OF_PLANNING

# Keys and texts as Flink's GlobalConfiguration.loadConfiguration gave them for this file.
AS_FLINK_READS = {
    "parallelism.default": "4",
    "pipeline.name": "a b",
    "pipeline.jars": "[a.jar, b;c.jar]",
    "pipeline.global-job-parameters.k": "v",
    "pipeline.global-job-parameters.n": "1",
    "pipeline.global-job-parameters.x y": "a,b:c",
    "empty": "[]",
    "hex": "16",
    "octal": "8",
    "decimal": "10",
    "number": "1.5",
    "exponent": "1000.0",
    "date": "2020-01-01",
    "yes": "yes",
    "t": "true",
    "maps": "[{a: 1, b: [x, y]}, plain]",
    "lines": "line1\nline2\n",
    "anchor": "5",
    "alias": "5",
    "dots.a.b": "3",
    "big": "123456789012345678901234",
    "time": "1:30",
    "infinite": ".inf",
}
FILE = """
parallelism.default: 4
pipeline:
  name: "a b"
  jars: [a.jar, "b;c.jar"]
  global-job-parameters: {k: v, n: 1, 'x y': 'a,b:c'}
nothing: {}
empty: []
hex: 0x10
octal: 0o10
decimal: 010
number: 1.50
exponent: 1e3
date: 2020-01-01
yes: yes
t: True
maps:
  - a: 1
    b: [x, y]
  - plain
lines: |
  line1
  line2
anchor: &x 5
alias: *x
dots:
  "a.b": 3
big: 123456789012345678901234
time: 1:30
infinite: .inf
"""


def write(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return str(folder)


def errors(folder: str, **defines: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        find_configuration(folder, {key.replace("_", "."): value for key, value in defines.items()})
    assert raised.value.exit_code == 2
    lines = raised.value.message.replace(f"{folder}/", "").splitlines()
    return [line.strip() for line in (lines[1:] or [lines[0].removeprefix("configuration: ")])]


def test_yaml_is_read_as_flink_reads_it(tmp_path):
    path = Path(write(tmp_path, a=FILE)) / "a.yaml"
    read = read_yaml_settings(str(path))
    assert {setting.key: setting.text for setting in read.settings} == AS_FLINK_READS
    assert read.problems == []
    lines = FILE.splitlines()
    for setting in read.settings:
        line = lines[int(setting.place.rpartition(":")[2]) - 1]
        assert setting.key.rpartition(".")[2].split("-")[0] in line.replace('"', "")


def test_all_yaml_files_are_read_whatever_their_names(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "c.yaml").write_text("unknown: 1")
    (tmp_path / "notes.txt").write_text("unknown: 1")
    (tmp_path / "only-comments.yaml").write_text("# nothing\n")
    (tmp_path / "empty.yaml").write_text("")
    for name, slots in (("0.yml", "parallelism.default: 2"), (".x.YAML", "taskmanager.numberOfTaskSlots: 3")):
        (tmp_path / name).write_text(slots)
    found = find_configuration(str(tmp_path))
    assert (found.job_defaults.parallelism, found.cluster.slots) == (2, 3)


BAD_FILES = {
    "- a\n": "bad.yaml:1: it is not a map of keys to values",
    "text": "bad.yaml:1: it is not a map of keys to values",
    "a: b: secret\n": "bad.yaml:1: it is not YAML: mapping values are not allowed here",
    "# \na: \x00": "bad.yaml:2: it is not YAML: it has a character that YAML does not allow",
    "a: 1\n---\nb: 2\n": "bad.yaml:2: it holds more than one document",
    "pipeline: &x\n  name: *x\n": "bad.yaml:2: pipeline.name: an alias of the map that contains it",
    "\npipeline.name:\n": "bad.yaml:2: pipeline.name: it has no value",
    "1: x\n": "bad.yaml:1: a key is not a text",
    "pipeline:\n  true: x\n": "bad.yaml:2: a key below pipeline is not a text",
    "? [a]\n: x\n": "bad.yaml:1: a key is not a text",
    "pipeline.jars: [{a: 1, a: secret}]\n": "bad.yaml:1: pipeline.jars: its value is not YAML",
    "pipeline.name: *x\n": "bad.yaml:1: it is not YAML: found undefined alias 'x'",
    "x: " + "{a: " * 2000 + "1" + "}" * 2000: "bad.yaml: it is nested too deeply",
}


@pytest.mark.parametrize(("text", "said"), BAD_FILES.items(), ids=lambda text: text[:20])
def test_files_that_are_wrong(tmp_path, text, said):
    assert errors(write(tmp_path, bad=text)) == [said]


@pytest.mark.parametrize("innermost", ["{}", "{a: 1}", "{[a]: 1}"])
def test_aliases_of_aliases_are_counted(tmp_path, innermost):
    """Ten lines stand for a thousand million maps."""
    tens = [f"m{i}: &m{i} {{{', '.join(f'k{j}: *m{i - 1}' for j in range(10))}}}" for i in range(1, 10)]
    folder = write(tmp_path, bad="\n".join([f"m0: &m0 {innermost}", *tens]))
    assert errors(folder) == ["bad.yaml: it holds more than 2,000 settings"]


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "bytes.yaml").write_bytes(b"# ok\npipeline.name: \xff\n")
    with open(tmp_path / "large.yaml", "wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    assert errors(str(tmp_path)) == [
        "bytes.yaml:2: it is not UTF-8",
        "folder.yaml: it cannot be read: Is a directory",
        "gone.yaml: it cannot be read: No such file or directory",
        "large.yaml: it is larger than 3 MiB",
        "loop.yaml: it cannot be read: Too many levels of symbolic links",
        "pipe.yaml: it is not a file",
    ]


def test_a_directory_that_is_none(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for given, said in (("none", "no such directory"), ("file", "not a directory")):
        with pytest.raises(ConfigurationError, match=f"--config-dir .*{given}: {said}"):
            find_configuration(str(tmp_path / given))
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_CONF_DIR .*none: no such directory"):
        find_configuration()


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    folder = write(
        tmp_path,
        a="""
parallelism.default: 4
taskmanager.numberOfTaskSlots: 2
execution.bufer-timeout.interval: 5 s
spark.driver.memry: 1g
python.executable: [a, b]
execution.checkpointing: {unaligned: true, unaligned.enabled: true}
""",
        b="parallelism: {default: 5}\npipeline.name: x\npipeline: {name: y}\nstate.backend.typ: rocksdb\n",
    )
    assert errors(folder, taskmanager_numberOfTaskSlots="many", a_b="c") == [
        "a.yaml:4: 'execution.bufer-timeout.interval' is an unknown key; did you mean "
        "execution.buffer-timeout.interval?",
        "a.yaml:5: 'spark.driver.memry' is an unknown key; did you mean spark.driver.memory?",
        "b.yaml:4: 'state.backend.typ' is an unknown key; did you mean state.backend.type?",
        "-D: 'a.b' is an unknown key",
        "b.yaml:1: parallelism.default is set already at a.yaml:2; set it once",
        "a.yaml:7: execution.checkpointing.unaligned.enabled and execution.checkpointing.unaligned "
        "(a.yaml:7) set the same option; set execution.checkpointing.unaligned.enabled alone",
        "b.yaml:3: pipeline.name is set already at b.yaml:2; set it once",
        "-D: taskmanager.numberOfTaskSlots must be an integer from 1 to 2147483647, "
        "got 'many', which is not a 32-bit integer",
        "a.yaml:6: python.executable must be a path, got '[a, b]', which is a list",
    ]


def test_a_wrong_value_that_is_replaced_is_still_wrong(tmp_path):
    folder = write(tmp_path, a="taskmanager.numberOfTaskSlots: 0")
    (said,) = errors(folder, taskmanager_numberOfTaskSlots="2")
    assert said.startswith(
        "a.yaml:1: taskmanager.numberOfTaskSlots must be an integer from 1 to 2147483647, got '0'"
    )


_MEMORY = "taskmanager.memory"
_TOO_SMALL = "a TaskManager is too small"
_CONCURRENT = "{interval: 10 s, unaligned.enabled: true, max-concurrent-checkpoints: 2}"
CONTRADICTIONS = {
    f"{_MEMORY}.jvm-overhead.min: 2g": f"(2g) is above {_MEMORY}.jvm-overhead.max (default)",
    f"{_MEMORY}.network: {{min: 2g, max: 1g}}": f"(2g) is above a.yaml:1: {_MEMORY}.network.max (1g)",
    f"{_MEMORY}.process.size: 300m": f"a.yaml:1: {_MEMORY}.process.size (300m): {_TOO_SMALL}",
    f"{_MEMORY}.task.off-heap.size: 2g": f"a.yaml:1: {_MEMORY}.task.off-heap.size (2g): {_TOO_SMALL}",
    f"execution.checkpointing: {_CONCURRENT}": "found '2', allowed: 1 with unaligned checkpoints",
    "execution: {runtime-mode: BATCH, sorted-inputs.enabled: false}": "requires the sorted inputs",
    f"{_MEMORY}.managed.consumer-weights: {{OPERATER: 1}}": "names the consumer 'OPERATER'",
    f"{_MEMORY}.segment-size: 5000": "a power of two",
    "execution.checkpointing.timeout: 1 ms": "10 ms or more",
}


@pytest.mark.parametrize(("text", "said"), CONTRADICTIONS.items())
def test_contradictions(tmp_path, text, said):
    (found,) = errors(write(tmp_path, a=text))
    assert said in found
    assert "a.yaml:1" in found or "options of jobs" in found


def test_a_map_as_a_whole_and_by_its_entries(tmp_path):
    key = "taskmanager.memory.managed.consumer-weights"
    whole, entry = f"{key}: 'OPERATOR:1'\n", f"{key}.PYTHON: 2\n"
    (said,) = errors(write(tmp_path, a=whole + entry))
    assert said.startswith(f"a.yaml:2: {key}.PYTHON is an entry of {key}, which a.yaml:1 sets as a whole")


def test_keys_that_flink_and_sparks_plugins_have_are_taken(tmp_path):
    folder = write(
        tmp_path,
        a="""
rest.port: 8081
metrics.reporter.mine.class: x
akka.ask.timeout: 10 s
external-resource.gpu.amount: 1
kubernetes.taskmanager.labels: {app.kubernetes.io/name: x}
spark.openlineage.url: x
spark.sql.catalog.mine.uri: y
""",
    )
    found = find_configuration(folder)
    assert set(found.spark) == {"spark.openlineage.url", "spark.sql.catalog.mine.uri"}


def test_options_are_defined_once_and_their_defaults_are_values():
    keys = [key for option in OPTIONS for key in (option.key, *option.deprecated)]
    assert len(keys) == len(set(keys))
    assert len({option.field for option in OPTIONS}) == len(OPTIONS)
    assert {option.key for option in OF_PLANNING} <= set(keys)
