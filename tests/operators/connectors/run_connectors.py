"""Reads sources and writes sinks as the runtime does, in this process: everything is pickled on its way."""

from pyspark import cloudpickle

from penstock.operators.chain.operator import OperatorContext


def context(subtask=0, parallelism=1, attempt=0, now=1_700_000_000_000):
    return OperatorContext(
        subtask=subtask, parallelism=parallelism, attempt_number=attempt, processing_time=lambda: now
    )


def travel(value):
    return cloudpickle.loads(cloudpickle.dumps(value))


def read_subtasks(source, parallelism=1):
    """The values that each subtask reads."""
    splits = source.splits(parallelism)
    assert len(splits) == parallelism
    assert travel(splits) is not None
    result = []
    for subtask, mine in enumerate(splits):
        values = []
        for split in mine:
            for chunk in travel(source).read(travel(split), context(subtask, parallelism)):
                assert chunk.values, "no chunk is empty"
                assert chunk.timestamps is None or len(chunk.timestamps) == len(chunk.values)
                values += chunk.values
        result.append(values)
    return result


def read_values(source, parallelism=1):
    """All values, subtask by subtask."""
    return [value for values in read_subtasks(source, parallelism) for value in values]


def read_batches(source, parallelism=1):
    """All record batches of the source in its columnar form."""
    columnar = travel(source.batches())
    batches = []
    for subtask, mine in enumerate(columnar.splits(parallelism)):
        for split in mine:
            for batch, _ in columnar.read(travel(split), context(subtask, parallelism)):
                assert batch.num_rows, "no batch is empty"
                batches.append(batch)
    return batches


def stage(started, subtasks, attempt=0):
    """What one attempt of every subtask has for the commit; `subtasks`: the lists of values of each."""
    committables = []
    started.begin()
    for subtask, lists in enumerate(subtasks):
        writer = travel(started).writer(context(subtask, len(subtasks), attempt))
        for values in lists:
            writer.write(values, None)
        committables += travel(writer.finish())
    return committables


def write(sink, subtasks, type_info=None):
    """A whole run of a sink."""
    started = sink.start(type_info=type_info)
    started.commit(stage(started, subtasks))


def files_in(folder):
    """Relative path of all files below a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
