"""`penstock explain`: why a plan is as it is."""

from typing import Annotated

import typer

from penstock.engine.commands.job_option import JobOption
from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.commands.look.explain_what_if import explain_what_if
from penstock.engine.commands.look.plan_to_draw import plan_of_source
from penstock.engine.output.write_lines import write_texts
from penstock.engine.views.explain.explain_edge import explain_plan, tell
from penstock.engine.views.explain.explained_plan import ExplainedPlan
from penstock.plans.errors import ConfigurationError

CONTEXT_SETTINGS = {"allow_interspersed_args": True}


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A plan store, a topology file, or a script (.py) with a job."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Of a script: its sys.argv.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Which to explain; needed if there are several."),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(
            "--operator",
            metavar="NAME",
            help="Only this operator and its edges: its name, uid, operator id or node.",
        ),
    ] = None,
    edge: Annotated[
        tuple[str, str] | None,
        typer.Option("--edge", metavar="A B", help="Only the edges from operator A to operator B."),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="REASON|CHANGE",
            help="Of a store: what all its topologies would save without this reason against chaining. Of a "
            "script: what its job would save or cost with KEY=VALUE, an option of Flink, or with "
            "OPERATOR:parallelism=N.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write all of it as one line of JSON, met conditions too.")
    ] = False,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Of a store; default: the newest.")
    ] = None,
    job: JobOption = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Say why edges are chained or not, and where operator ids, slot sharing groups and slots come from.

    Without --operator or --edge: what keeps each edge from being chained, and the slots of each group. With
    one of them: every condition of chaining with the values found, and where Flink checks it.
    """
    if without is not None and source.endswith(".py"):
        if topology or operator or edge or version is not None:
            raise ConfigurationError("--what-if of a script goes with --job, -D and --json only")
        from penstock.engine.commands.look.explain_what_if import explain_what_if_of_script

        explain_what_if_of_script(
            script=source,
            arguments=list(arguments or []),
            change=without,
            job=job,
            configuration=given_configuration(config_dir, define),
            json=json,
        )
        return
    if without is not None:
        if arguments or topology or operator or edge or config_dir or define:
            raise ConfigurationError(
                "--what-if goes with --version and --json only", "it is about all topologies of a version"
            )
        explain_what_if(store=source, named=without, version=version, json=json)
        return
    if operator is not None and edge is not None:
        raise ConfigurationError("--operator and --edge cannot go together", "name one of them")
    drawn = plan_of_source(source, list(arguments or []), topology, version, config_dir, define, job)
    plan = ExplainedPlan(drawn)
    explained = explain_plan(plan, operator, edge)
    if drawn.job is not None:
        from penstock.engine.views.explain.explain_edge import explain_fusing

        explained["fusing"] = explain_fusing(drawn.job.lowered)
    if json:
        import orjson

        write_texts([orjson.dumps(explained).decode()], None)
    else:
        tell(explained, whole=operator is None and edge is None)
