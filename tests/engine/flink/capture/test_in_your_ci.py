"""The script and the workflow of docs/in-your-ci.md, as they are written there, in a local repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.flink

PAGE = (Path(__file__).parents[4] / "docs" / "in-your-ci.md").read_text(encoding="utf-8")

JOBS = """
CREATE TABLE clicks (page STRING, user_id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE counts (page STRING, clicks BIGINT) WITH ('connector' = 'print');
SET 'pipeline.name' = 'clicks';
INSERT INTO counts SELECT page, COUNT(*) FROM clicks GROUP BY page;
"""


def block(title: str) -> str:
    found = re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_a_pull_request_that_loses_state_fails_and_says_so(tmp_path, monkeypatch):
    def git(*arguments):
        name = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "compare-jobs.sh").write_text(block("ci/compare-jobs.sh"))
    (tmp_path / "jobs.sql").write_text(JOBS)
    git("init")
    git("add", ".")
    git("commit", "-m", "jobs")
    git("switch", "-c", "change")
    distinct = JOBS.replace("FROM clicks GROUP", "FROM (SELECT DISTINCT page, user_id FROM clicks) GROUP")
    (tmp_path / "jobs.sql").write_text(distinct)
    git("commit", "-a", "-m", "change")

    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    done = subprocess.run(
        ["sh", "ci/compare-jobs.sh", "main"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 6, done.stderr
    said = (tmp_path / "jobs.md").read_text()
    assert said.startswith("### old.jsonl → new.jsonl\n")
    assert re.search(r"GroupAggregate&#91;\d+&#93;&#39; loses its state", said)
    git("diff", "--exit-code")
    assert not (tmp_path / ".git" / "worktrees").exists()


def test_the_workflow_runs_that_script():
    steps = yaml.safe_load(block(".github/workflows/jobs.yml"))["jobs"]["compare"]["steps"]
    runs = [step["run"] for step in steps if "run" in step]
    assert 'sh ci/compare-jobs.sh "origin/$GITHUB_BASE_REF"' in runs
    assert any("--body-file jobs.md" in run for run in runs)
