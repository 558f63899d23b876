"""`penstock explain SCRIPT.py --what-if CHANGE`: what a change would save or cost the script's job."""

from rich.table import Column

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.output.people import print_table
from penstock.engine.output.say import say
from penstock.engine.output.write_lines import write_texts


def explain_what_if_of_script(
    *,
    script: str,
    arguments: list[str],
    change: str,
    job: str | None,
    configuration: EffectiveConfiguration,
    json: bool,
) -> None:
    """Print a job's figures as they are and as they would be. ConfigurationError for what is no change."""
    from penstock.engine.library.what_if_of_script import parse_change, what_if_of_script
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.pyflink.datastream.environment_settings import EnvironmentSettings

    changes = parse_change(change)
    options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
    settings = EnvironmentSettings(config=configuration.scripts, plan_options=options)
    answer = what_if_of_script(script, arguments, settings, job, changes)
    if json:
        import orjson

        said = {"change": change, **answer._asdict()}
        for when in ("now", "then"):
            said[when] = {name.replace(" ", "_"): value for name, value in said[when].items()}
        write_texts([orjson.dumps(said).decode()], None)
        return
    say(f"job {answer.job!r} with {change}")
    for name in answer.operators_then:
        if name not in answer.operators_now:
            say(f"  new operator: {name}")
    for name in answer.operators_now:
        if name not in answer.operators_then:
            say(f"  no longer there: {name}")
    say()
    rows = [
        (name, f"{now:,}", f"{answer.then[name]:,}", f"{answer.then[name] - now:+,}")
        for name, now in answer.now.items()
    ]
    print_table([Column(""), *(Column(name, justify="right") for name in ("now", "then", "change"))], rows)
