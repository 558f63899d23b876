"""Ends the server of a session with everything that it has started."""

from penstock.engine.clusters.session_folder import Session, forget_latest, remove_session
from penstock.engine.commits.run_owner import describe_owner, liveness
from penstock.engine.machine.end_processes import end_processes, processes_of_session
from penstock.plans.errors import ConfigurationError

_GRACE_SECONDS = 15.0
"""For Spark to remove its local files."""


def stop_session(session: Session) -> bool:
    """End the server, and remove what is recorded of it; whether it was still running.

    Only a process is ended that is the one which was recorded: another may have its number by now. Raises
    ConfigurationError for a server on another machine.
    """
    found = liveness(session.owner)
    if found == "unknown":
        raise ConfigurationError(
            f"session {session.name!r} belongs to {describe_owner(session.owner)}, which cannot be seen here",
            "stop it there",
        )
    if found == "alive":
        server = int(session.owner["pid"])
        # its JVM ends with it, and removes its files; then what is left of the process's session
        started = processes_of_session(server)
        end_processes({server}, _GRACE_SECONDS)
        end_processes((started | processes_of_session(server)) - {server}, _GRACE_SECONDS)
    remove_session(session.folder)
    forget_latest(session.name)
    return found == "alive"
