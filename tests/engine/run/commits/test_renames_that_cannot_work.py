"""Renames that cannot work are found before anything is decided; another file is not taken for the sink's."""

import errno
import os

import pytest

from penstock.engine.pyflink.common import Encoder
from penstock.engine.run.commits.commit_run import CommitError, NamedSink, begin_run, commit_run, undo_run
from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors import staged_files
from penstock.operators.connectors.commit_delta import DeltaSink
from penstock.operators.connectors.file_sink import FileSink, StreamingFileSink
from penstock.operators.connectors.file_sink_settings import BucketAssigner, OutputFileConfig
from penstock.operators.files import durable_files
from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.test_killed_drivers import recover
from tests.engine.run.commits.two_sinks import ROWS
from tests.processes import path_of


def file_sink(folder, prefix="part", kind=FileSink):
    builder = kind.for_row_format(str(folder), Encoder.simple_string_encoder())
    config = OutputFileConfig(prefix, ".txt")
    with pytest.warns() if kind is StreamingFileSink else pytest.MonkeyPatch.context():
        return (
            builder.with_output_file_config(config)
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .build()
        )


def staged(sink, text="new"):
    """An open run of the sink that has written a line, and what it commits."""
    started = sink.start(type_info=Types.STRING())
    opened = begin_run(os.urandom(16).hex(), "job", "same", [NamedSink("sink", started)])
    writer = started.writer(OperatorContext(subtask=0, parallelism=1))
    writer.write([text], None)
    return opened, writer.finish()


def refused(sink, match):
    opened, committables = staged(sink)
    with opened, pytest.raises(CommitError, match=f"{match}.*nothing of the job is committed"):
        commit_run(opened, [committables])
    undo_run(opened)


def test_a_prefix_that_leaves_the_folder(tmp_path):
    refused(file_sink(tmp_path / "out", "../part"), "only rename files within its folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_name_that_is_too_long(tmp_path):
    refused(file_sink(tmp_path / "out", "x" * 230), os.strerror(errno.ENAMETOOLONG))
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_where_a_bucket_belongs(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bucket").write_text("x")
    refused(file_sink(tmp_path / "out", "bucket/deeper/part"), "bucket")
    assert (tmp_path / "out" / "bucket").read_text() == "x"


def test_a_folder_where_a_file_belongs(tmp_path):
    (tmp_path / "out" / "part-0-0.txt").mkdir(parents=True)
    refused(file_sink(tmp_path / "out", kind=StreamingFileSink), "a folder is at the path of a file")


def test_a_bucket_on_another_file_system(tmp_path, monkeypatch):
    rename = os.rename

    def across(source, target, *, src_dir_fd=None, dst_dir_fd=None):
        if dst_dir_fd is not None and path_of(dst_dir_fd).endswith("/bucket"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", across)
    refused(file_sink(tmp_path / "out", "bucket/part"), "a file cannot be renamed to it")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_bucket_that_is_a_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "part-0-0.txt").write_text("old")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bucket").symlink_to(victim)
    refused(file_sink(tmp_path / "out", "bucket/part", StreamingFileSink), "it is a link")
    assert [one.read_text() for one in victim.iterdir()] == ["old"]
    opened, committables = staged(file_sink(tmp_path / "out", "later/part", StreamingFileSink))
    with opened:
        opened.sinks[0].prepare(committables)
        (tmp_path / "out" / "later").symlink_to(victim)
        with pytest.raises(OSError, match="it is a link"):
            opened.sinks[0].commit(committables)
    assert [one.read_text() for one in victim.iterdir()] == ["old"]


def test_what_was_tried_is_gone_and_the_commit_works(tmp_path):
    opened, committables = staged(file_sink(tmp_path / "out", "a/b/" + "x" * 150))
    with opened:
        opened.sinks[0].prepare(committables)
        assert [one.name[:10] for one in (tmp_path / "out").iterdir() if one.name[0] != "."] == []
        commit_run(opened, [committables])
    (part,) = (tmp_path / "out").rglob("*.txt")
    assert (part.read_text(), part.parent.name) == ("new\n", "b")


@pytest.mark.parametrize("old", ["old", "older text"])
def test_an_old_file_is_not_passed_off_as_the_new_one(tmp_path, old, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-0-0.txt").write_text(f"{old}\n")  # the first has as many bytes as the new one
    opened, committables = staged(file_sink(out, kind=StreamingFileSink))
    move, calls = durable_files.move_file, []

    def fails_at_the_commit(*arguments):
        calls.append(arguments)
        if len(calls) > 1:  # the first one tries
            raise OSError("the disk is away")
        move(*arguments)

    with opened, pytest.MonkeyPatch.context() as patched:
        patched.setattr(staged_files, "move_file", fails_at_the_commit)
        with pytest.raises(CommitError, match="is away"):
            commit_run(opened, [committables])
    os.unlink(committables[0].staged)
    assert recover(out) == 1
    assert "is another file" in capsys.readouterr().err
    assert (out / "part-0-0.txt").read_text() == f"{old}\n"
    assert [run.job for run in runs_in(str(out))] == ["job"]


def test_a_published_file_is_known_again(tmp_path):
    sink = file_sink(tmp_path / "out", kind=StreamingFileSink)
    opened, committables = staged(sink)
    with opened:
        commit_run(opened, [committables])
        opened.sinks[0].commit(committables)
    assert (tmp_path / "out" / "part-0-0.txt").read_text() == "new\n"


def test_a_log_that_takes_no_files(tmp_path):
    from penstock.operators.common.row import Row

    sink = DeltaSink(str(tmp_path / "table"), ROWS).start(type_info=ROWS)
    opened = begin_run(os.urandom(16).hex(), "job", "same", [NamedSink("sink", sink)])
    writer = sink.writer(OperatorContext())
    writer.write([Row(1)], None)
    committables = writer.finish()
    (tmp_path / "table" / "_delta_log").write_text("a file")
    with opened, pytest.raises(CommitError, match="nothing of the job is committed"):
        commit_run(opened, [committables])
