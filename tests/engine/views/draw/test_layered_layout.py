"""Boxes of a layout overlap nothing, and are to the right of those that they read from."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.views.draw.lay_out import BoxSize, layered_layout, place_in_line

SIZES = st.builds(BoxSize, st.floats(10, 300), st.floats(10, 200))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[BoxSize], list[tuple[int, int]]]:
    sizes = draw(st.lists(SIZES, min_size=1, max_size=25))
    ends = st.integers(0, len(sizes) - 1)
    edges = draw(st.lists(st.tuples(ends, ends).filter(lambda edge: edge[0] < edge[1]), max_size=40))
    return sizes, edges


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_boxes_do_not_overlap_and_data_goes_to_the_right(graph):
    sizes, edges = graph
    layout = layered_layout(sizes, edges, 40)
    boxes = list(zip(layout.corners, sizes, strict=True))
    for ((ax, ay), a), ((bx, by), b) in combinations(boxes, 2):
        apart = (
            ax + a.width <= bx
            or bx + b.width <= ax
            or ay + a.height <= by + 1e-6
            or by + b.height <= ay + 1e-6
        )
        assert apart
    for source, target in edges:
        assert layout.corners[source][0] + sizes[source].width < layout.corners[target][0]
    for (x, y), size in boxes:
        assert min(x, y) >= -1e-6
        assert x + size.width <= layout.size.width + 1e-6
        assert y + size.height <= layout.size.height + 1e-6
    assert layered_layout(sizes, edges, 40) == layout


@given(graphs())
@settings(max_examples=30, deadline=None)
def test_edges_go_around_boxes(graph):
    sizes, edges = graph
    layout = layered_layout(sizes, edges, 40)
    for bends in layout.bends:
        for left, right in zip(bends[::2], bends[1::2], strict=True):
            assert left[1] == right[1]
            for (x, y), size in zip(layout.corners, sizes, strict=True):
                assert right[0] <= x or x + size.width <= left[0] or not y < left[1] < y + size.height


def test_edges_may_form_circles():
    sizes = [BoxSize(50, 20)] * 4
    layout = layered_layout(sizes, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 3)], 40)
    assert len(set(layout.corners)) == 4


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [([0, 100], [0, 100]), ([50, 50], [44, 56]), ([100, 0], [44, 56]), ([0, 0, 90], [-6, 6, 90]), ([], [])],
)
def test_boxes_in_a_line_are_as_near_as_possible_to_where_they_would_be(wanted, placed):
    assert place_in_line(wanted, [10] * len(wanted), [2] * len(wanted)) == placed
