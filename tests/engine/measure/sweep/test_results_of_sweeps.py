"""What the digest of a cell covers, and results of sweeps as tables and figures."""

import sys
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.measure.sweep import grid
from penstock.engine.measure.sweep.format_table import formatted, plot_results, read_results
from penstock.engine.measure.sweep.grid import cells_of
from penstock.engine.measure.sweep.results_table import MEASURED, append_rows, measured_cells, result_row
from penstock.engine.measure.sweep.run_sweep import prepare_sweep, quality_text, run_sweep, sweep_spec_of
from penstock.engine.measure.sweep.sweep_spec import TableFormat
from penstock.engine.output.progress import Report
from penstock.plans.errors import InputError

PLANNER = """
import penstock
from helpers import level
@penstock.decides("chaining")
def policy(stream_edges):
    import later
    __import__("named")
    return stream_edges
"""
SPEC = {
    "topologies": {"shape": "random", "operators": [4, 16, 200]},
    "planners": ["flink", "own_policy:policy"],
}


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """The digests of the cells of SPEC: of Flink's rules, and of a planner whose files are in the folder."""
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").write_text("")
    (tmp_path / "helpers" / "level.py").write_text("import polars\nLEVEL = 1\n")
    (tmp_path / "later.py").write_text("")
    (tmp_path / "named.py").write_text("")
    (tmp_path / "own_policy.py").write_text(PLANNER)
    (tmp_path / "solver").write_bytes(b"\x7fELF of yesterday")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def found(*depends):
        for module in ("own_policy", "helpers", "helpers.level", "later"):
            sys.modules.pop(module, None)
        cells = cells_of(sweep_spec_of(SPEC, "spec"), "spec", depends)
        return [{cell.key for cell in cells if cell.planner == name} for name in SPEC["planners"]]

    return found


@pytest.mark.parametrize(
    "file", ["own_policy.py", "helpers/level.py", "helpers/__init__.py", "later.py", "named.py"]
)
def test_a_cell_is_another_one_when_a_file_of_its_planner_changes(keys, tmp_path, file):
    before = keys()
    assert keys() == before
    (tmp_path / file).write_text((tmp_path / file).read_text() + "\n# edited\n")
    after = keys()
    assert after[0] == before[0]
    assert not after[1] & before[1]


def test_a_cell_is_another_one_when_a_package_or_a_declared_file_changes(keys, tmp_path, monkeypatch):
    before, declared = keys(), keys("solver")
    assert declared[0] == before[0]
    assert not declared[1] & before[1]
    (tmp_path / "solver").write_bytes(b"\x7fELF of today")
    assert not keys("solver")[1] & declared[1]
    assert any(one.startswith("polars==") for one in grid.code_of_planner("own_policy:policy"))
    monkeypatch.setattr(grid, "version", lambda name: "0.0.1")
    assert not keys()[1] & before[1]
    with pytest.raises(InputError, match="no such file"):
        keys("nowhere")


@pytest.fixture
def swept(tmp_path, keys):
    """A folder with a row for each cell of SPEC, and older ones of other code; gives the cells."""
    keys()
    cells = cells_of(sweep_spec_of(SPEC, "spec"), "spec")
    versions = {"penstock_version": "0", "processor": "one"}
    date = datetime(2026, 1, 1, tzinfo=UTC)
    rows = []
    for age, slots in ((5, 1_000.0), (0, 1.0)):
        for cell in cells:
            factor = 2 if cell.planner == "flink" else 3
            metrics = {"slots": [slots * factor * cell.source["operators"], 0.0]}
            answer = {"result": {"planned": 1, "planning_seconds": 0.5, "metrics": metrics}}
            key = f"{cell.key}-{age}" if age else cell.key
            rows.append(result_row(cell._replace(key=key), date - timedelta(days=age), answer, versions))
    append_rows(str(tmp_path / "swept"), rows)
    return cells


def run(*arguments):
    result = CliRunner().invoke(app, ["sweep", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_tables_have_numbers_in_order_of_the_newest_code(tmp_path, swept):
    assert read_results(str(tmp_path / "swept"))["drawn_operators"].to_list() == [4, 4, 16, 16, 200, 200]
    asked = ("table", "swept", "--by", "drawn_operators", "--by", "planner", "--metric", "slots")
    code, csv, _ = run(*asked, "--format", "csv")
    expected = ["drawn_operators,planner,cells,failed,compared,slots"] + [
        f"{n},{name},1,0,1,{float(n * factor)}"
        for n in (4, 16, 200)
        for name, factor in (("flink", 2), ("own_policy:policy", 3))
    ]
    assert (code, csv.splitlines()) == (0, expected)
    assert run(*asked)[1].splitlines()[:3] == [
        r"| drawn\_operators | planner | cells | failed | compared | slots |",
        "|---:|---|---:|---:|---:|---:|", "| 4 | flink | 1 | 0 | 1 | 8 |",
    ]  # fmt: skip
    latex = run(*asked, "--format", "latex")[1]
    assert latex.startswith("\\begin{tabular}{rlrrrr}\n\\toprule\ndrawn\\_operators & planner")
    code, _, said = run("table", "swept", "--metric", "slot")
    assert (code, "did you mean slots?" in said) == (2, True)
    assert run("table", tmp_path / "helpers")[0] == 3


def test_a_figure_has_axes_with_units_and_a_line_for_each_planner(tmp_path, swept):
    assert run("plot", "swept", "--to", "a.svg", "-y", "planning_seconds")[0] == 0
    drawn = (tmp_path / "a.svg").read_text()
    for text in ("planning (s)", "operators", "flink", "own_policy:policy"):
        assert f">{text}<" in drawn
    assert run("plot", "swept", "--to", "b.svg", "-y", "planning_seconds")[0] == 0
    assert (tmp_path / "b.svg").read_text() == drawn
    assert run("plot", "swept", "--to", "a.doc", "-y", "slots")[0] == 2


@pytest.mark.parametrize(("largest", "scale"), [(2.0, "linear"), (2_000.0, "log")])
def test_values_that_are_far_apart_have_a_logarithmic_axis(largest, scale):
    rows = pl.DataFrame(
        {"operators": [1, 2], "planning_seconds": [1.0, largest], "failed": False, "compared": 1}
    )
    (axes,) = plot_results(rows, "operators", "planning_seconds", None).axes
    assert axes.get_yscale() == scale


def test_force_takes_the_rows_of_the_grid_away_and_measures_anew(tmp_path, swept):
    def measure(cells):
        for cell in cells:
            yield cell, {"result": {"planned": 7, "metrics": {}}}

    folder = str(tmp_path / "swept")
    assert run_sweep(swept, folder, measure, Report(), again=False).measured == 0
    assert run_sweep(swept[:2], folder, measure, Report(), again=False, anew=True).measured == 2
    assert sorted(read_results(folder)["planned"].to_list()) == [1, 1, 1, 1, 7, 7]


def test_a_cell_is_another_one_when_the_configuration_or_the_time_limit_changes(tmp_path, keys):
    def found(defines=None, config_dir=None, time_limit=60.0):
        prepared = prepare_sweep(SPEC, config_dir, defines or {}, time_limit)
        return [{cell.key for cell in prepared.cells if cell.planner == name} for name in SPEC["planners"]]

    before = found()
    assert before == keys()
    slots = {"taskmanager.numberOfTaskSlots": "4"}
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("taskmanager.numberOfTaskSlots: 4\n")
    for others in (found(slots), found(config_dir=str(tmp_path / "conf"))):
        assert not any(one & other for one, other in zip(before, others, strict=True))
    flinks, own = found(time_limit=1.0)
    assert flinks == before[0]
    assert not own & before[1]
    assert {str(cell.options) for cell in prepare_sweep(SPEC, None, slots, 60.0).cells} == {str(slots)}


def test_names_that_begin_with_a_bracket_or_star_are_no_lengths_to_latex():
    rows = pl.DataFrame({"file": ["[1]_&%#", "*"], "rate": [2e49, 1234.5]})
    assert formatted(rows, TableFormat.LATEX).splitlines()[4:6] == [
        r"{[}1]\_\&\%\# & 2e+49 \\", r"{*} & 1,234 \\",
    ]  # fmt: skip


def measured_rows(cells, planned):
    """Answers about `cells`: `planned` maps (planner, operators) to slots by topology; None: crashed."""
    for cell in cells:
        slots = planned[cell.planner, cell.source["operators"]]
        if slots is None:
            yield cell, {"failure": {"error": "Crashed", "message": "exit code 3"}}
            continue
        names = sorted(slots)
        schema = {"name": pl.String, "slots": pl.Float64}
        plans = pl.DataFrame({"name": names, "slots": [slots[name] for name in names]}, schema)
        plans = plans.with_columns(pl.lit(1.0).alias(name) for name in MEASURED if name != "slots")
        rejected = {"PlannerRaised": 3 - len(names)} if len(names) < 3 else {}
        result = {
            "inputs": 3, "planned": len(names), "rejected": 3 - len(names), "planning_seconds": 0.5,
            "rejected_for": rejected, "rejected_as": dict.fromkeys(rejected, ("c", "ValueError: too large")),
            "metrics": {"slots": [plans["slots"].mean(), 0.0]}, "quality": quality_text(plans),
        }  # fmt: skip
        yield cell, {"result": result, "failure": None}


def test_planners_are_compared_over_the_topologies_that_all_have_planned(tmp_path, keys):
    keys()
    cells = cells_of(sweep_spec_of(SPEC, "spec"), "spec")
    of_flink = {"a": 1.0, "b": 2.0, "c": 9.0}
    mine = {4: {"a": 2.0, "b": 4.0, "c": 6.0}, 16: {"a": 2.0}, 200: None}
    answers = {("flink", n): of_flink for n in mine} | {("own_policy:policy", n): mine[n] for n in mine}
    folder = str(tmp_path / "swept")
    swept = run_sweep(cells, folder, lambda todo: measured_rows(todo, answers), Report(), again=False)
    assert [(cell.source["operators"], why) for cell, why in swept.failed] == [
        (16, "PlannerRaised for 2 of 3 topologies, the first c: ValueError: too large"),
        (200, "Crashed: exit code 3"),
    ]
    by_operators = ("table", "swept", "--by", "drawn_operators", "--by", "planner", "--metric", "slots")
    metrics = ("--metric", "planning_seconds", "--format", "csv")
    assert run(*by_operators, *metrics)[1].splitlines() == [
        "drawn_operators,planner,cells,failed,compared,slots,planning_seconds",
        "4,flink,1,0,3,4.0,0.5", "4,own_policy:policy,1,0,3,4.0,0.5",
        "16,flink,1,0,1,1.0,0.5", "16,own_policy:policy,1,1,1,2.0,0.5",
        "200,flink,1,0,0,,", "200,own_policy:policy,1,1,0,,",
    ]  # fmt: skip
    by_planner = ("table", "swept", "--by", "planner", "--metric", "slots", "--format", "csv")
    assert run(*by_planner)[1].splitlines() == [
        "planner,cells,failed,compared,slots", "flink,3,0,4,2.5", "own_policy:policy,3,2,4,3.0",
    ]  # fmt: skip
    assert run("plot", "swept", "-x", "drawn_operators", "-y", "slots", "--to", "a.svg")[0] == 0
    assert ">own_policy:policy (failed in 2 of 3 cells)<" in (tmp_path / "a.svg").read_text()


def test_a_planner_that_raises_for_all_has_failed_and_is_compared_with_nothing(tmp_path, keys):
    keys()
    cells = cells_of(sweep_spec_of(SPEC, "spec"), "spec")
    answers = {(cell.planner, cell.source["operators"]): {"a": 1.0, "b": 2.0, "c": 6.0} for cell in cells}
    answers |= {("own_policy:policy", n): {} for n in (4, 16, 200)}
    folder = str(tmp_path / "swept")
    run_sweep(cells, folder, lambda todo: measured_rows(todo, answers), Report(), again=False)
    again = run_sweep(cells, folder, lambda todo: measured_rows(todo, answers), Report(), again=False)
    assert (again.measured, len(again.failed)) == (0, 3)
    assert {(row.error, row.failure) for row in measured_cells(folder).values()} == {
        (None, None),
        ("PlannerRaised", "PlannerRaised for 3 of 3 topologies, the first c: ValueError: too large"),
    }
    by_planner = ("table", "swept", "--by", "planner", "--metric", "slots", "--format", "csv")
    assert run(*by_planner)[1].splitlines() == [
        "planner,cells,failed,compared,slots", "flink,3,0,9,3.0", "own_policy:policy,3,3,0,",
    ]  # fmt: skip
