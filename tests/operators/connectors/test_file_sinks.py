import re
import warnings

import pytest

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.file_sink import FileSink, StreamingFileSink
from penstock.operators.connectors.file_sink_settings import (
    BucketAssigner,
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.operators.connectors.sink import CollectSink, DiscardSink, Sink
from penstock.operators.connectors.staged_files import (
    CsvSink,
    JsonLinesSink,
    ParquetSink,
    TextSink,
)
from penstock.operators.formats.csv_files import CsvBulkWriters
from penstock.operators.formats.csv_rows import CsvSchema
from penstock.operators.formats.parquet_files import ParquetBulkWriters
from penstock.operators.formats.part_formats import Encoder
from penstock.operators.task.sink_operators import terminal_operator
from tests.operators.connectors.run_connectors import context, files_in, stage, travel, write

TRIPLE = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
TRIPLES = [(f"a{number}", number, number / 2) for number in range(20)]
BASE = BucketAssigner.base_path_bucket_assigner()
UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def text_builder(folder):
    return FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).with_bucket_assigner(BASE)


def texts(folder):
    return {name: (folder / name).read_text() for name in files_in(folder)}


def lines(values):
    return "".join(f"({name},{number},{half})\n" for name, number, half in values)


def test_text_lines_are_javas(tmp_path):
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".suf").build()
    write(
        text_builder(tmp_path).with_output_file_config(config).build(), [[TRIPLES[:7], TRIPLES[7:]]], TRIPLE
    )
    ((name, content),) = texts(tmp_path).items()
    assert re.fullmatch(f"pre-{UUID}-0\\.suf", name)
    assert content == lines(TRIPLES)


def test_the_default_bucket_is_the_hour(tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    write(sink, [[["x"]], [["y"]]], Types.STRING())
    names = files_in(tmp_path)
    assert len(names) == 2
    assert all(re.fullmatch(f"2023-11-14--\\d\\d/part-{UUID}-0", name) for name in names)
    assert len({name.rsplit("-", 1)[0] for name in names}) == 2


def test_a_file_is_rolled_behind_the_record_that_fills_it(tmp_path):
    builder = text_builder(tmp_path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=30))
    write(builder.build(), [[TRIPLES[:3], TRIPLES[3:]]], TRIPLE)
    by_number = {int(name.rsplit("-", 1)[1]): content for name, content in texts(tmp_path).items()}
    assert [by_number[number] for number in range(7)] == [
        lines(TRIPLES[start : start + 3]) for start in range(0, 20, 3)
    ]


def test_a_file_is_rolled_when_it_is_old(tmp_path):
    for policy, expected in (
        (DefaultRollingPolicy(rollover_interval=250, inactivity_interval=10_000), ["a\nb\nc\n", "d\n"]),
        (DefaultRollingPolicy(rollover_interval=10_000, inactivity_interval=150), ["a\nb\n", "c\n", "d\n"]),
        (OnCheckpointRollingPolicy(), ["a\nb\nc\nd\n"]),
    ):
        folder = tmp_path / type(policy).__name__ / str(policy.rollover_interval)
        sink = text_builder(folder).with_rolling_policy(policy).build().start()
        sink.begin()
        place = context()
        now = [1000]
        place.processing_time = lambda now=now: now[0]
        writer = sink.writer(place)
        for value, wait in (("a", 0), ("b", 50), ("c", 150), ("d", 200)):
            now[0] += wait
            writer.write([value], None)
        sink.commit(writer.finish())
        found = texts(folder)
        assert [found[name] for name in sorted(found)] == expected


def test_nothing_is_visible_before_the_commit(tmp_path):
    started = text_builder(tmp_path).build().start(type_info=Types.STRING())
    committables = stage(started, [[["a"]], [["b"]]])
    assert all(name.startswith(".penstock-") for name in files_in(tmp_path))
    started.commit(committables)
    assert sorted(texts(tmp_path).values()) == ["a\n", "b\n"]
    started.commit(committables)
    assert sorted(texts(tmp_path).values()) == ["a\n", "b\n"]
    started.abort()
    assert len(files_in(tmp_path)) == 2


@pytest.mark.parametrize(
    "sink_of",
    [
        lambda path: text_builder(path).build(),
        TextSink,
        JsonLinesSink,
        lambda path: ParquetSink(path, Types.STRING()),
        lambda path: CsvSink(path, Types.STRING()),
    ],
)
def test_an_aborted_job_leaves_nothing(tmp_path, sink_of):
    (tmp_path / "kept").write_text("x")
    started = sink_of(str(tmp_path)).start()
    stage(started, [[["a"]], [["b"]]])
    writer = started.writer(context(subtask=2))
    writer.write(["c"], None)
    writer.abort()
    assert len(files_in(tmp_path)) == 3
    started.abort()
    assert files_in(tmp_path) == ["kept"]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("sink_of", [lambda path: text_builder(path).build(), TextSink])
def test_a_second_attempt_does_not_meet_the_first(tmp_path, sink_of):
    started = sink_of(str(tmp_path)).start(type_info=Types.STRING())
    started.begin()
    lost = started.writer(context(attempt=0))
    lost.write(["half"], None)
    same_number = stage(started, [[["first"]]], attempt=0)
    second = stage(started, [[["second"]]], attempt=1)
    lost.finish()
    assert [one.target for one in same_number] == [one.target for one in second]
    started.commit(second)
    assert list(texts(tmp_path).values()) == ["second\n"]


@pytest.mark.parametrize("sink_of", [lambda path: text_builder(path).build(), TextSink])
def test_a_subtask_that_outlives_its_run_leaves_nothing(tmp_path, sink_of):
    started = sink_of(str(tmp_path)).start(type_info=Types.STRING())
    started.begin()
    early, late = started.writer(context()), started.writer(context(subtask=1))
    early.write(["a"], None)
    started.abort()
    with pytest.raises(FileNotFoundError, match="the run has ended"):
        late.write(["b"], None)
    early.abort()
    assert list(tmp_path.iterdir()) == []


def test_two_runs_of_one_sink_do_not_meet(tmp_path):
    sink = text_builder(tmp_path).build()
    one, two = sink.start(), sink.start()
    staged = stage(one, [[["a"]]])
    stage(two, [[["b"]]])
    two.abort()
    one.commit(staged)
    assert list(texts(tmp_path).values()) == ["a\n"]


def test_a_lost_staged_file_is_an_error(tmp_path):
    started = TextSink(str(tmp_path)).start()
    (committable,) = stage(started, [[["a"]]])
    (tmp_path / committable.staged).unlink()
    with pytest.raises(FileNotFoundError, match="neither"):
        started.commit([committable])


def test_a_sink_is_started_before_it_is_written(tmp_path):
    with pytest.raises(RuntimeError, match="start"):
        text_builder(tmp_path).build().writer(context()).write(["a"], None)


@pytest.mark.parametrize(
    ("threshold", "expected"), [(60, [[0, 6], [6, 12], [12, 18], [18, 20]]), (-1, [[0, 20]])]
)
def test_small_files_become_larger_ones(tmp_path, threshold, expected):
    strategy = (
        FileCompactStrategy.builder()
        .set_size_threshold(threshold)
        .enable_compaction_on_checkpoint(1)
        .set_num_compact_threads(2)
        .build()
    )
    sink = (
        text_builder(tmp_path)
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=30))
        .enable_compact(strategy, FileCompactor.concat_file_compactor(b"|"))
        .build()
    ).start(type_info=TRIPLE)
    staged = stage(sink, [[TRIPLES]])
    sink.commit(staged)
    found = texts(tmp_path)
    assert all(name.startswith("compacted-part-") for name in found)
    in_order = sorted(found, key=lambda name: int(name.rsplit("-", 1)[1]))
    assert [found[name] for name in in_order] == [
        "|".join(lines(TRIPLES[start : min(start + 3, end)]) for start in range(first, end, 3))
        for first, end in expected
    ]
    sink.commit(staged)
    assert texts(tmp_path) == found


def test_compaction_off_and_of_one_file(tmp_path):
    strategy = FileCompactStrategy.builder().set_size_threshold(1).build()
    builder = text_builder(tmp_path).enable_compact(strategy, FileCompactor.identical_file_compactor())
    write(builder.build(), [[["a"]]])
    write(text_builder(tmp_path).disable_compact().build(), [[["b"]]])
    assert [name.startswith("compacted-") for name in files_in(tmp_path)] == [True, False]
    everything = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    several = builder.enable_compact(everything, FileCompactor.identical_file_compactor()).build()
    with pytest.raises(ValueError, match="one file"):
        write(several, [[["a"]], [["b"]]])


def test_the_legacy_sink(tmp_path):
    builder = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BASE).with_bucket_check_interval(1000)
    builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1))
    with pytest.warns(DeprecationWarning, match="use FileSink"):
        sink = builder.build()
    write(sink, [[["a", "b"]], [["c"]]])
    assert texts(tmp_path) == {"part-0-0": "a\n", "part-0-1": "b\n", "part-1-0": "c\n"}


def test_bulk_formats(tmp_path):
    schema = CsvSchema.builder().add_string_column("a").add_number_column("n").build()
    for sink_class in (FileSink, StreamingFileSink):
        folder = tmp_path / sink_class.__name__
        builder = sink_class.for_bulk_format(str(folder), CsvBulkWriters.for_schema(schema))
        builder.with_bucket_assigner(BASE).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        with pytest.raises(ValueError, match="must be OnCheckpointRollingPolicy"):
            builder.with_rolling_policy(RollingPolicy.default_rolling_policy())  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sink = builder.build()
        write(sink, [[[Row("x y", 1)], [Row(None, 2)]]])
        assert list(texts(folder).values()) == ['"x y",1\n,2\n']
    row_type = Types.ROW_NAMED(["a"], [Types.INT()])
    parquet = FileSink.for_bulk_format(str(tmp_path / "p"), ParquetBulkWriters.for_row_type(row_type)).build()
    assert parquet.columnar
    assert parquet.get_transformer() is None
    with pytest.raises(TypeError, match="1 fields"):
        parquet.start(type_info=TRIPLE)
    with pytest.raises(TypeError, match="BulkWriterFactory"):
        FileSink.for_bulk_format(str(tmp_path), Encoder.simple_string_encoder())
    with pytest.raises(TypeError, match="Encoder"):
        FileSink.for_row_format(str(tmp_path), "text")


def test_wrong_settings_are_refused(tmp_path):
    with pytest.raises(ValueError, match="positive"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(ValueError, match="positive"):
        text_builder(tmp_path).with_bucket_check_interval(0)
    with pytest.raises(ValueError, match="needs a size threshold"):
        FileCompactStrategy.builder().build()
    with pytest.raises(ValueError, match="threads"):
        FileCompactStrategy.builder().set_num_compact_threads(0)
    with pytest.raises(ValueError, match="checkpoints"):
        FileCompactStrategy.builder().enable_compaction_on_checkpoint(0)
    with pytest.raises(TypeError, match="BucketAssigner"):
        text_builder(tmp_path).with_bucket_assigner("hour")
    with pytest.raises(LookupError):
        Encoder.simple_string_encoder("NOPE")
    for refused in (BucketAssigner, RollingPolicy, FileCompactor, Sink):
        with pytest.raises(NoJavaError):
            refused(object())


def test_the_encoder_has_a_charset(tmp_path):
    encoder = Encoder.simple_string_encoder("ISO-8859-1")
    write(FileSink.for_row_format(str(tmp_path), encoder).build(), [[["é", "€"]]], Types.STRING())
    (name,) = files_in(tmp_path)
    assert (tmp_path / name).read_bytes() == b"\xe9\n?\n"


def test_records_without_a_declared_type_are_written_by_their_class(tmp_path):
    values = [1, 2.5, True, None, ("a", 1e10), {"k": [1]}, Row("x", None)]
    write(TextSink(str(tmp_path)), [[values]])
    assert list(texts(tmp_path).values()) == [
        "1\n2.5\ntrue\nnull\n(a,1.0E10)\n{k=[1]}\n+I[x, null]\n"
    ]  # fmt: skip


def test_subtasks_without_records_write_no_file(tmp_path):
    write(ParquetSink(str(tmp_path / "new"), Types.LONG()), [[], [[1]], []])
    (name,) = files_in(tmp_path / "new")
    assert name.startswith("part-00001-")
    write(TextSink(str(tmp_path / "empty")), [[], []])
    assert (tmp_path / "empty").is_dir()


def test_uris_are_paths(tmp_path):
    write(TextSink(f"file://{tmp_path}/a"), [[["x"]]])
    assert list(texts(tmp_path / "a").values()) == ["x\n"]


def test_discard_and_collect():
    assert terminal_operator(0, travel(DiscardSink()), None, columnar=True).columnar
    started = DiscardSink().start()
    assert stage(started, [[[1, 2]]]) == []
    started.commit([])
    assert travel(CollectSink()).columnar
