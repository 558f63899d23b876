"""What a sink that commits becomes."""

import pytest

from penstock.engine.run.lowering.generate_stream_graph import expand_sink
from penstock.engine.run.runtime.transformations import Compaction, LoweredTransformation

COMMITTER = ["Writer", "Committer"]
COMPACTOR = ["Writer", "CompactorCoordinator", "CompactorOperator", "Committer"]
PLACES = ["Writer", "CompactorCoordinatorPlaceHolder", "CompactorOperatorPlaceHolder", "Committer"]


@pytest.mark.parametrize(
    ("compaction", "compacts", "names", "ids"),
    [
        (None, True, COMMITTER, 4),
        (None, False, COMMITTER, 4),
        (Compaction.ENABLED, True, COMPACTOR, 8),
        (Compaction.ENABLED, False, COMMITTER, 8),
        (Compaction.DISABLED, True, PLACES, 10),
        (Compaction.DISABLED, False, COMMITTER, 10),
    ],
)
def test_operators_that_compact_come_before_the_committer(
    compaction: Compaction | None, compacts: bool, names: list[str], ids: int
) -> None:
    sink = LoweredTransformation(
        id=1, kind="sink", name="s", uid="u", parallelism=2, commits=True, compaction=compaction
    )
    expanded = expand_sink("job", sink, 10, batch=False, compacts=compacts)
    assert [operator.name for operator, _ in expanded.operators] == [f"s: {name}" for name in names]
    assert expanded.ids == ids
