"""What the spec of a sweep may say, and what is said of one that is wrong."""

import pytest

from penstock.engine.measure.sweep.grid import axes_of_options
from penstock.engine.measure.sweep.run_sweep import read_sweep_spec
from penstock.plans.errors import InputError
from tests.engine.measure.sweep.grids import run


def test_everything_that_is_wrong_is_said_with_its_line(folder):
    (folder / "wrong.yaml").write_text(
        "topologies:\n  - shape: randm\n  - {file: a.jsonl, seed: 1}\n  - {shape: chain, width: 3}\n"
        "  - {shape: wide, operators: [10, ten]}\n  - {shape: random, topologies: 0}\n  - {}\n"
        "planer: flink\nrepeat: 0\noptions: {parallelism.default: [1, 1]}\nplanners: nowhere:plan\n"
    )
    code, said, complained = run("wrong.yaml")
    assert (code, said) == (3, "")
    for part in (
        "wrong.yaml:2: topologies.0: shape must be one of random, layered",
        "wrong.yaml:3: topologies.1: file takes nothing else, got seed",
        "wrong.yaml:4: topologies.2: chain takes topologies, operators",
        "wrong.yaml:5: topologies.3.operators: must be a whole number or a list of them, got 'ten'",
        "wrong.yaml:6: topologies.4: topologies must be 1 to 500000000, got 0",
        "wrong.yaml:7: topologies.5: must have one of shape, file, spec, got none",
        "wrong.yaml:8: planer: unknown key; did you mean planners?",
        "wrong.yaml:9: repeat: must be greater than or equal to 1, got 0",
        "wrong.yaml:10: options.parallelism.default: 1 is listed twice",
        "wrong.yaml:11: planners: --planner nowhere:plan: ModuleNotFoundError: No module named 'nowhere'",
    ):
        assert part in complained, part
    (folder / "wrong.yaml").write_text(
        "topologies:\n  - file: gone.jsonl\n  - spec: gone.yaml\nplanners: [flink, gone:planner]\n"
        "costs: gone.csv\n"
        "options:\n  paralelism.default: 3\n  taskmanager.numberOfTaskSlots: [2, two]\n"
    )
    complained = run("wrong.yaml")[2]
    for part in (
        "wrong.yaml:2: topologies.0.file: gone.jsonl: no such file",
        "wrong.yaml:3: topologies.1.spec: ",
        "wrong.yaml:4: planners: --planner gone:planner: ModuleNotFoundError",
        "wrong.yaml:5: costs: --costs must be an existing file or store, drawn or alike, got gone.csv",
        "wrong.yaml:7: options.paralelism.default: ",
        "did you mean parallelism.default?",
        "wrong.yaml:8: options.taskmanager.numberOfTaskSlots: ",
    ):
        assert part in complained, part
    assert "Traceback" not in complained


def test_errors_of_a_source_and_of_what_it_names_come_together(folder):
    (folder / "wrong.yaml").write_text(
        "topologies:\n  - {shape: [nosuch, chain], seed: '{x}', operators: [1, -2], width: 3}\n"
        "  - {file: gone.jsonl, operators: 3, spec: b.yaml}\n  - file: gone.jsonl\n"
        "  - {shape: random, parallelism: 0, topologies: -1}\n"
    )
    complained = run("wrong.yaml")[2]
    for part in (
        "wrong.yaml:2: topologies.0.seed: must be a whole number or a list of them, got '{x}'",
        "wrong.yaml:2: topologies.0: shape must be one of",
        "wrong.yaml:2: topologies.0: chain takes topologies",
        "wrong.yaml:2: topologies.0: operators must be 2 to 500000000, got 1",
        "wrong.yaml:2: topologies.0: operators must be 2 to 500000000, got -2",
        "wrong.yaml:3: topologies.1: must have one of shape, file, spec, got file and spec",
        "wrong.yaml:3: topologies.1: file takes nothing else, got operators",
        "wrong.yaml:4: topologies.2.file: gone.jsonl: no such file",
        "wrong.yaml:5: topologies.3: parallelism must be 1 to 32768, got 0",
        "wrong.yaml:5: topologies.3: topologies must be 1 to 500000000, got -1",
    ):
        assert part in complained, part


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be an object"),
        ("[1]", "must be an object"),
        ("a: [", "not YAML"),
        ("topologies: 5", "wrong.yaml:1: topologies: "),
        ("planners: flink", "topologies: must be a source of topologies"),
        ("topologies: []", ", got []"),
        (
            "topologies: {shape: chain}\ntopologies: {shape: wide}",
            "wrong.yaml:2: 'topologies' occurs twice",
        ),
        ("a: &a [1]\ntopologies: *a", "wrong.yaml:2: values must be written out, got an alias"),
        ("topologies: {shape: !!python/name:os.system x}", "wrong.yaml:1"),
        ("x: " + "[" * 5000, "wrong.yaml:1: lists and objects must be at most"),
        (
            f"topologies: {{shape: chain, seed: {list(range(400))}, operators: {list(range(2, 402))}}}",
            "160,000",
        ),
        ("\x80", "wrong.yaml"),
    ],
)
def test_broken_specs(folder, text, said):
    (folder / "wrong.yaml").write_bytes(text.encode("latin-1"))
    code, _, complained = run("wrong.yaml", "--dry-run")
    assert code == 3
    assert said in complained
    assert "Traceback" not in complained


def test_specs_that_are_no_files(folder):
    assert run("gone.yaml")[0] == 3
    assert run(".")[0] == 3
    (folder / "swept").write_text("")
    assert run("grid.yaml", "--out", "swept")[0] == 2


def test_options_are_texts_as_in_yaml():
    assert list(axes_of_options({"a": [1, "1728m"], "b": [True]})) == [
        {"a": "1", "b": "true"},
        {"a": "1728m", "b": "true"},
    ]
    with pytest.raises(InputError):
        read_sweep_spec("/dev/null/none")
