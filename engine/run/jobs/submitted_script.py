"""The facts that all jobs of a script share, as `penstock run` submits it."""

import os
from collections.abc import Sequence

from penstock.engine.output.redaction import redact
from penstock.engine.run.clusters.cluster_kinds import Cluster
from penstock.engine.run.jobs.job_folder import SubmittedJob

_KINDS = (("spark://", "standalone"), ("yarn", "yarn"), ("k8s://", "kubernetes"))
_LOCAL = "local[*]"


def submitted_script(
    script: str,
    arguments: Sequence[str],
    options: Sequence[str],
    store: str | None,
    cluster: Cluster,
) -> SubmittedJob:
    """A job without id and name: script, arguments and options without secrets, and where it runs.

    `options` are those of the command.
    """
    session = cluster.session
    url = (cluster.master if session is None else session.master) or _LOCAL
    kind = next((kind for start, kind in _KINDS if url.startswith(start)), "local")
    return SubmittedJob(
        job_id="",
        name="",
        script=script,
        arguments=tuple(map(redact, arguments)),
        options=tuple(map(redact, options)),
        working_folder=os.getcwd(),
        cluster_kind=kind if session is None else "session",
        master=redact(url),
        session=None if session is None else session.name,
        store=None if store is None else redact(store),
    )
