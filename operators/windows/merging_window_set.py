"""The open windows of a key, and for each the window under which its contents are kept.

When windows merge, the result keeps the state of one of them, so that most merges move no data.

Source: pyflink.fn_execution.datastream.window.merging_window_set;
org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet.
"""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.operators.windows.assigner import MergingWindowAssigner

#: Called with: the merged window, the windows it is made of, the window its state is kept under, the windows
#: whose state has to be moved there.
MergeFunction = Callable[[Any, Iterable[Any], Any, list[Any]], None]


class MergingWindowSet:
    """The open windows of one key, over `mapping`: window to the window that its state is kept under.

    The mapping is changed in place.
    """

    __slots__ = ("_assigner", "mapping")

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.mapping = mapping

    def state_window(self, window: Any) -> Any:
        """The window that the state of `window` is kept under; None if it is not open."""
        return self.mapping.get(window)

    def retire_window(self, window: Any) -> None:
        """Forget an open window. Raises Exception if it is not open."""
        if window not in self.mapping:
            raise Exception(f"Window {window} is not in the set of open windows.")
        del self.mapping[window]

    def add_window(self, new_window: Any, merge_function: MergeFunction) -> Any:
        """Open a window, merge what has to merge, and return the window that now holds `new_window`.

        `merge_function` is called for each merge that changes windows that were open before.
        """
        mapping = self.mapping
        merges = _Merges()
        self._assigner.merge_windows([*mapping, new_window], merges)
        result_window, merged_new_window = new_window, False
        for merge_result, merged_windows in merges.results.items():
            if new_window in merged_windows:
                merged_new_window = True
                merged_windows.remove(new_window)
                result_window = merge_result
            if not merged_windows:
                # A user's assigner may "merge" a window with nothing but itself.
                mapping[merge_result] = merge_result
                continue
            state_window = mapping[next(iter(merged_windows))]
            state_windows = [mapping.pop(window) for window in merged_windows if window in mapping]
            mapping[merge_result] = state_window
            state_windows.remove(state_window)
            if len(merged_windows) == 1 and merge_result in merged_windows:
                # The new window lay inside an open one, which stays as it is.
                continue
            merge_function(merge_result, merged_windows, state_window, state_windows)
        if not merged_new_window and new_window not in mapping:
            mapping[new_window] = new_window
        return result_window


class _Merges(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.results: dict[Any, Any] = {}

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results[merge_result] = (
            to_be_merged if isinstance(to_be_merged, (set, list)) else list(to_be_merged)
        )
