"""Run a script inside `penstock run` and `penstock info`."""

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.engine.machine.standard_streams import is_of_standard_output
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.pyflink.datastream.environment_options import JobCaptured
from penstock.engine.run.lowering.transformations import FILE_DELIMITER, PYTHON_FILES, Job, restart_ids
from penstock.engine.run.runtime.run_context import RunContext, use_context
from penstock.engine.views.explain_plan import lost_setting_text
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import InputError, PenstockError

# Report settings that a script's job loses because PyFlink fuses Python operators.


def print_lost_settings(job: Job) -> None:
    """Warn of uids, hashes and names that PyFlink forgets, each with the line that sets it."""
    for lost in job.lowered.lost_settings:
        print_beside_output(f"job {job.name!r}: {lost_setting_text(lost)}")


class ScriptError(PenstockError):
    """A script raised."""


def run_script(
    script: str,
    arguments: Sequence[str],
    context: RunContext,
    *,
    real_pyflink: bool = False,
) -> None:
    """Run `script` as `python script arguments` would, with `context` for its environments.

    It imports from their option python.files, too (source: PythonDriver). Unless `real_pyflink`,
    `import pyflink` imports Penstock. Raises InputError if there is no such file, ScriptError with the
    script's own lines if it raises; errors of Penstock pass unchanged.
    """
    path = Path(script)
    if not path.is_file():
        raise InputError(f"{script}: no such script" if not path.exists() else f"{script} is not a file")
    if not real_pyflink:
        from penstock.engine.pyflink_names import install

        install()
    settings = context.environment_settings()
    if settings.captured is not None:
        with without_pandas():
            pass  # pyarrow has now searched for pandas; the script can still import it
    restart_ids()
    python_files = settings.config.get(PYTHON_FILES, "").split(FILE_DELIMITER)
    with use_context(context), _as_main(path, [script, *arguments], list(filter(None, python_files))):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except JobCaptured:
            return
        except PenstockError:
            raise
        except Exception as error:
            if is_of_standard_output(error):
                raise
            raise ScriptError(_describe_script_error(path, error)) from error


def _describe_script_error(path: Path, error: Exception) -> str:
    """Return the error and the script's own lines that led to it, the last one first."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    lines = [f"\n  line {frame.lineno}, in {frame.name}: {frame.line}" for frame in reversed(own)]
    return f"{path} failed: {type(error).__name__}: {error}{''.join(lines)}"


@contextmanager
def _as_main(path: Path, argv: list[str], python_files: Sequence[str]) -> Iterator[None]:
    before_argv, before_path = sys.argv, list(sys.path)
    sys.argv = argv
    sys.path[0:0] = [str(path.resolve().parent), *(str(Path(file).resolve()) for file in python_files)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before_argv, before_path
