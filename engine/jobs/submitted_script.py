"""What `penstock run` says of a script for all of its jobs."""

import os
from collections.abc import Mapping, Sequence

from engine.jobs.job_folder import SubmittedJob
from engine.output.redaction import redact

_KINDS = (("spark://", "standalone"), ("yarn", "yarn"), ("k8s://", "kubernetes"))
_LOCAL = "local[*]"


def submitted_script(
    script: str,
    arguments: Sequence[str],
    options: Sequence[str],
    store: str | None,
    master: str | None,
    spark: Mapping[str, str],
) -> SubmittedJob:
    """A job without id and name: script, arguments and options without secrets, and where it runs.

    `options` are those of the command; `master` and `spark` say where its jobs run.
    """
    url = master or spark.get("spark.master") or _LOCAL
    return SubmittedJob(
        job_id="",
        name="",
        script=script,
        arguments=tuple(map(redact, arguments)),
        options=tuple(map(redact, options)),
        working_folder=os.getcwd(),
        cluster_kind=next((kind for start, kind in _KINDS if url.startswith(start)), "local"),
        master=redact(url),
        store=None if store is None else redact(store),
    )
