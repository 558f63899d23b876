"""Medians, comparisons, equality of plans, and the page."""

import base64
import gzip
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from deltalake import DeltaTable

from penstock.engine.measure.bench.measure_suites import Line, draw_lines, render_page
from penstock.engine.measure.bench.print_results import (
    FORMAT,
    append_rows,
    best_planning,
    compare_results,
    equality_lines,
    read_results,
    summarise,
)
from penstock.engine.output.figures import describe_figures
from penstock.engine.planning.plan_beside_flink import digest_plans, find_differences
from penstock.plans.errors import InputError
from tests.engine.measure.bench.made_up import hostile_results, record, results, times
from tests.project.hostile_text import OBEYED

GOLDEN = Path(__file__).parents[3] / "golden"


def test_medians_are_over_processes_of_medians_in_a_process():
    warm = [[times(1), times(9), times(2)], [times(3)], [times(5), times(7)]]
    records = [record("process", 1.0, warm=of_process, repetition=n) for n, of_process in enumerate(warm)]
    (row,) = summarise(records)
    assert row["warm"]["planning"] == 3
    assert row["warm"]["layers"] == {"stream_graph": 0.9, "job_graph": 2.1}
    assert row["cold"]["read"] == 0.25
    assert (row["cold"]["planning"], row["repetitions"], row["operators_per_second"]) == (2, 3, 333)


def test_speed_is_relative_to_flink_else_to_the_slowest():
    with_flink = [record("blocks", 8), record("process", 1), record("flink", 4)]
    other = [record("blocks", 8, size=5), record("process", 2, size=5), record("flink", None, size=5)]
    rows = {(row["size"], row["planner"]): row for row in summarise([*with_flink, *other])}
    assert [rows[1000, p]["ratio"] for p in ("blocks", "process", "flink")] == [0.5, 4, 1]
    assert [rows[5, p]["ratio"] for p in ("blocks", "process", "flink")] == [1, 4, None]
    assert {rows[5, p]["ratio_to"] for p in ("blocks", "process")} == {"blocks"}
    assert rows[5, "flink"]["failures"] == [{"error": "StackOverflowError", "message": "<none> & so on"}]
    assert best_planning(rows[5, "flink"]) is None


def test_a_cold_plan_counts_where_there_is_no_warm_one():
    (row,) = summarise([record("flink", 4, warm=[])])
    assert best_planning(row) == 8


def test_slower_than_a_quarter_is_found_and_so_is_a_new_failure():
    old = summarise([record("blocks", 1.0), record("process", 1.0), record("flink", 1.0)])
    new = summarise([record("blocks", 1.3), record("process", 1.2), record("flink", None)])
    rows = {row["planner"]: row for row in compare_results(old, new)}
    assert rows["blocks"]["ratio"] == pytest.approx(1.425 / 1.125, abs=0.001)
    assert [rows[p]["slower"] for p in ("blocks", "process", "flink")] == [True, False, True]
    assert rows["flink"]["ratio"] is None


def test_cold_is_compared_with_cold_and_what_is_new_or_failed_before_is_not_compared():
    old = summarise([record("blocks", 1.0, warm=[]), record("process", None)])
    new = summarise([record("blocks", 1.0), record("process", None), record("flink", 1.0)])
    (row,) = compare_results(old, new)
    assert (row["planner"], row["kind"], row["ratio"], row["slower"]) == ("blocks", "cold", 1.0, False)


def test_digests_of_flinks_plans_do_not_see_orders_that_flink_does_not_define():
    with gzip.open(GOLDEN / "random.jsonl.gz", "rt", encoding="utf-8") as file:
        plans = [json.loads(line)["expected"] for line in file][:30]
    shuffled = json.loads(json.dumps(plans))
    for plan in shuffled:
        if "error" not in plan:
            plan["stream_graph"]["nodes"].reverse()
            plan["execution_graph"]["vertices"].reverse()
            plan["slots"].reverse()
            for vertex in plan["job_graph"]["vertices"]:
                vertex["slot_sharing_group"] += 7
    both = {"a": digests(plans), "b": digests(shuffled)}
    pairs = find_differences(both)
    assert {pair["layer"] for pair in pairs} >= {"stream_graph", "job_graph", "execution_graph", "slots"}
    assert [pair["differing"] for pair in pairs] == [0] * len(pairs)


def digests(plans):
    return digest_plans(json.dumps(plan) for plan in plans)


def test_differences_name_the_layer_and_the_first_topology():
    ours = [{"name": n, "slots": [n], "execution_graph": {"vertices": []}} for n in "abc"]
    theirs = [
        {"name": "a", "slots": ["a"], "execution_graph": {"vertices": []}},
        {"name": "b", "slots": ["z"], "execution_graph": {"vertices": []}},
        {"name": "c", "error_stage": "job_graph", "error": "E", "message": "m"},
    ]
    pairs = {p["layer"]: p for p in find_differences({"blocks": digests(ours), "flink": digests(theirs)})}
    assert set(pairs) == {"execution_graph", "slots", "refusal"}
    assert (pairs["slots"]["differing"], pairs["slots"]["first"], pairs["slots"]["topologies"]) == (1, "b", 2)
    assert (pairs["refusal"]["first"], pairs["execution_graph"]["differing"]) == ("c", 0)
    entry = {"suite": "fleet", "operators": 36, "pairs": list(pairs.values()), "failures": {}}
    said = equality_lines([entry])
    assert (
        said[0] == "fleet at 36 operators: blocks and flink differ at slots in 1 of 2 topologies, first in b"
    )


def test_equal_plans_and_planners_without_plans_are_told():
    equal = find_differences({"a": {"t": {"slots": "1"}}, "b": {"t": {"slots": "1"}}})
    failures = {"flink": {"error": "StackOverflowError", "message": ""}}
    entry = {"suite": "chain", "operators": 9, "pairs": equal, "failures": failures}
    assert equality_lines([entry]) == [
        "chain at 9 operators: flink gave no plans to compare: StackOverflowError",
        "chain at 9 operators: the plans of a and b are equal in every layer",
    ]


class WellFormed(HTMLParser):
    """Every tag is closed in order; the page uses XML's notation for empty ones."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page():
    made_up = [
        record(planner, seconds * size / 1000, size=size)
        for size in (1000, 100_000)
        for planner, seconds in (("blocks", 4.0), ("process", 0.25))
    ]
    made_up.append(record("flink", 0.5))
    made_up.append(record("flink", None, size=100_000))
    equality = [{"suite": "fleet", "operators": 1000, "pairs": [], "failures": {"x<y": {"error": "E"}}}]
    return render_page(results(made_up, summarise(made_up), equality))


def test_page_is_well_formed_and_needs_nothing_else(page):
    checked = WellFormed()
    checked.feed(page)
    checked.close()
    assert checked.open == []
    assert [word for word in ("<script", "http:", "https:", "@import", "url(") if word in page] == []


def test_page_holds_figures_plots_and_failures(page):
    said = ["what process includes", "16.00", "0.12 x flink", "2.00 x flink", "StackOverflowError"]
    assert [text for text in said if text not in page] == []
    assert "&lt;none&gt; &amp; so on" in page
    assert "A &lt;processor&gt;" in page
    assert "x&lt;y" in page
    assert page.count("<figure>") == 2
    assert page.count("<img alt=") == 2


def drawing(image: str) -> str:
    """The SVG of an image in a page."""
    found = re.fullmatch(r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)"/>', image)
    assert found is not None
    return base64.b64decode(found[1]).decode()


def test_figures_have_axes_with_units_and_leave_out_what_a_logarithm_cannot_show():
    points = [(0, 1), (10, 0.5), (1000, 50)]
    svg = drawing(draw_lines("a < $b$", "operators", "planning (s)", [Line("one & two", 0, points)]))
    ElementTree.fromstring(svg)
    assert all(text in svg for text in (">operators<", ">planning (s)<", "a &lt; $b$", "one &amp; two"))
    assert draw_lines("t", "x", "y", [Line("none", 0, [(5, 0)])]) == ""


def test_every_repetition_is_a_dot_beside_its_median():
    line = Line("one", 0, [(10, 2), (100, 3)])
    measured = line._replace(measured=[(10, 1), (10, 2), (10, 4)])
    without, with_dots = (
        drawing(draw_lines("t", "x", "y", [one])).count("<use ") for one in (line, measured)
    )
    assert with_dots - without >= 3


def test_a_page_says_what_draws_figures_where_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install &#39;penstock-spark[figures]&#39;" in draw_lines(
        "t", "x", "y", [Line("a", 0, [(1, 1)])]
    )


def test_the_terminal_says_what_draws_figures_where_that_is_not_installed(monkeypatch):
    assert describe_figures(Path("a.html"), "plots") == "a.html shows plots"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = "a.html lacks plots, which matplotlib draws: pip install 'penstock-spark[figures]'"
    assert describe_figures(Path("a.html"), "plots") == said


def test_older_results_name_planners_as_new_ones_do(tmp_path):
    rows = [{"planner": name} for name in ("joins", "columnar-on-spark", "columnar", "flink", "mine:policy")]
    (tmp_path / "results.json").write_text(json.dumps({"format": FORMAT, "summary": rows}))
    named = [row["planner"] for row in read_results(tmp_path / "results.json")["summary"]]
    assert named == ["blocks", "workers", "process", "flink", "mine:policy"]


def test_other_files_are_no_results(tmp_path):
    for number, text in enumerate(
        (
            "",
            "[]",
            "{}",
            '{"format": 99}',
            '{"format": 1}',
            '{"format": 1, "summary": {}}',
            '{"format": 1, "summary": [3]}',
        )
    ):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        with pytest.raises(InputError):
            read_results(file)
    with pytest.raises(InputError):
        read_results(tmp_path / "missing.json")


def test_every_plan_of_a_process_is_a_row_of_the_table_cold_or_not(tmp_path):
    kept = [record("blocks", 1.0, warm=[times(1.0, 0.25), times(2.0, 0.25)], repetition=n) for n in range(2)]
    kept[1]["cold"] = None  # of a session that had planned before
    of_all = results(kept, [])
    append_rows(tmp_path, of_all | {"versions": {}, "machine": {"processor": "made up"}}, kept)
    rows = DeltaTable(str(tmp_path / "results")).to_pyarrow_table().to_pylist()
    assert sorted((row["repetition"], row["place"]) for row in rows) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 2),
    ]


def test_the_page_of_a_benchmark_holds_names_as_text():
    page = render_page(hostile_results() | {"date": "<script>alert(1)</script>&\"'"})
    assert OBEYED.findall(page) == []
    assert "<script>" not in page
    assert page.count("[bold]x[/bold]") >= 8
