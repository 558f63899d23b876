"""`penstock ui`: jobs and runs in a browser."""

import sys
from typing import Annotated

import typer

from penstock.engine.output.say import say
from penstock.plans.errors import ConfigurationError


def command(
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="Show the runs that this store records, too.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of loopback; default: any that is free.")
    ] = 0,
) -> None:
    """Serve a page with the jobs of this user, live, until it is stopped; the printed link opens it."""
    from penstock.engine.views.ui.run_figures import shown_runs
    from penstock.engine.views.ui.serve import RunPageServer, serve_run_page

    shown_runs(store)  # what is wrong with a store is said here
    try:
        server = RunPageServer(port, store)
    except OSError as error:
        raise ConfigurationError(
            f"--port {port}: {error.strerror or error}", "choose another, or leave it out"
        ) from error
    say(f"runs are shown at {server.link}")
    say("everybody with this link may see and cancel jobs; Ctrl-C ends the page")
    sys.stdout.flush()
    serve_run_page(server)
