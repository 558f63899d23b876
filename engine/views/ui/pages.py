"""The pages: the list of runs, and one run with its plan. Whatever is foreign in them is escaped."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.engine.output.redaction import redact
from penstock.engine.run.jobs.job_records import JobRecord
from penstock.engine.views.draw.drawn_plan import plan_of_tables
from penstock.engine.views.draw.fold import fold
from penstock.engine.views.draw.graph import DrawnGraph
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, graph_of_layer
from penstock.engine.views.draw.to_html import json_of_page, layer_of_page
from penstock.engine.views.ui.run_figures import RunTexts, run_figures, seconds
from penstock.engine.views.ui.shown_run import StoredRun, tables_to_draw
from penstock.plans.errors import PenstockError
from penstock.plans.printable import printable

_ROOM_OF_NOTE = 28


def list_page(runs: Sequence[JobRecord], store: str | None) -> str:
    """All runs, the latest first."""
    rows = [
        {
            "id": run.job_id,
            "name": printable(redact(run.submitted.name)),
            "state": run.state,
            "started": _time(run.submitted.started_at),
            "seconds": seconds(run.milliseconds),
            "mode": run.submitted.runtime_mode,
            "where": "store" if isinstance(run, StoredRun) else run.submitted.cluster_kind,
        }
        for run in runs
    ]
    shown = None if store is None else printable(redact(store))
    return str(_templates().get_template("list.html.j2").render(runs=rows, store=shown))


def run_page(run: JobRecord, form_token: str) -> str:
    """One run. Its picture is left out where its plan cannot be read."""
    texts = run_figures(run)
    submitted = run.submitted
    facts = [
        ("job", run.job_id),
        ("started", _time(submitted.started_at)),
        ("mode", submitted.runtime_mode),
        ("cluster", " ".join(filter(None, [submitted.cluster_kind, submitted.master, submitted.session]))),
        ("script", " ".join(filter(None, [submitted.script, *submitted.arguments]))),
    ]
    layer = _picture(run, texts)
    page = _templates().get_template("run.html.j2")
    return str(
        page.render(
            id=run.job_id,
            name=printable(redact(submitted.name)),
            facts=[(heading, printable(redact(text))) for heading, text in facts if text],
            run=texts,
            layer=layer,
            data=Markup("[]") if layer is None else json_of_page([layer["data"]]),
            form_token=form_token,
        )
    )


def message_page(title: str, message: str) -> str:
    """A page that holds a message only."""
    page = _templates().get_template("message.html.j2")
    return str(page.render(title=title, message=printable(redact(message))))


def _picture(run: JobRecord, texts: RunTexts) -> dict[str, object] | None:
    try:
        plan = plan_of_tables(tables_to_draw(run), None, "the run")
        graph = graph_of_layer(plan, DrawnLayer.JOB_GRAPH)
    except (PenstockError, KeyError):
        return None
    notes = {vertex.key: vertex.note for vertex in texts.vertices}
    return layer_of_page(fold(_with_notes(graph, notes), "auto"), 0)


def _with_notes(graph: DrawnGraph, notes: dict[str, str]) -> DrawnGraph:
    """The graph with how vertices are doing in their boxes, which are wide enough for what comes."""
    nodes = tuple(
        replace(node, note=notes.get(node.key, "CREATED").ljust(_ROOM_OF_NOTE, "\u2002"))
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("penstock.engine.views.ui", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
