"""What library calls give: the plans of many topologies, as tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from penstock.engine.library import planned_graphs
from penstock.engine.library.planned_graphs import Graph
from penstock.engine.library.require_store import require_store
from penstock.engine.library.store import path_of_store
from penstock.engine.output.html_table import html_table
from penstock.engine.output.say import say
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import limited, printable
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import Layer


class Tables(Mapping[str, Any]):
    """Name to table; a table is made when it is first asked for."""

    def __init__(
        self, names: Iterable[str], table: Callable[[str], Any], made: Mapping[str, Any] | None = None
    ) -> None:
        found = set(names)
        self._names, self._table = tuple(name for name in TABLES if name in found), table
        self._made = dict(made or {})

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise ConfigurationError(f"tables: found {name!r}, allowed {', '.join(self._names)}")
        if name not in self._made:
            self._made[name] = self._table(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def get(self, name: str, default: Any = None) -> Any:
        """The table, or `default` if there is none of that name."""
        return self[name] if name in self._names else default

    def __repr__(self) -> str:
        return f"<{len(self)} tables: {', '.join(self)}>"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


class Plan:
    """The plans of all topologies of an input, or of one version of a store.

    `tables` maps names (see docs/tables.md) to Arrow tables, or to Spark's DataFrames where a session was
    given. `inputs` topologies came in, of which `planned` are in all tables but one, and `rejected` are rows
    of `tables["rejected"]`, with the reason. `source` says who planned and why, or which version was read.
    `ignored` is a frame of the columns that were given as `ignore`, and `name`; None if there were none. In
    what `nodes`, `edges` and `partitions` give, they are beside the topology's name.
    """

    def __init__(
        self,
        tables: Tables,
        inputs: int,
        planned: int,
        rejected: int,
        source: str,
        *,
        write: Callable[[str], int],
        release: Callable[[], None] = lambda: None,
        aside: Any = None,
    ) -> None:
        self.tables = tables
        self.inputs, self.planned, self.rejected = inputs, planned, rejected
        self.source, self.ignored = source, aside
        self._write, self._release = write, release

    def nodes(self, layer: Layer | str | None = None) -> Any:
        """The nodes of a layer (None: the last one that has any) of all topologies, with their names.

        Layers are topology (transformations), stream_graph, job_graph (vertices), execution_graph
        (subtasks).
        """
        return planned_graphs.nodes(self.tables, layer, self.ignored)

    def edges(self, layer: Layer | str | None = None) -> Any:
        """The edges of a layer, as `nodes`; those of the execution graph name a range of partitions."""
        return planned_graphs.edges(self.tables, layer, self.ignored)

    def partitions(self, layer: Layer | str | None = None) -> Any:
        """What vertices put out: data sets of the job_graph, partitions of the execution_graph."""
        return planned_graphs.partitions(self.tables, layer, self.ignored)

    def graph(self, layer: Layer | str | None = None) -> Graph:
        """The graph of a layer: vertices with `id`, edges with `src` and `dst`."""
        return planned_graphs.graph(self.tables, layer, self.ignored)

    def show(self, rows: int = 20) -> None:
        """Print what the plan holds, and the first rows of its rejected topologies."""
        say(f"{self._counted()}; {limited(printable(self.source))}")
        say(f"tables: {', '.join(self.tables)}")
        if self.rejected:
            columns = ("name", "error", "message")
            for row in _first_rows(self.tables["rejected"], columns, rows):
                say("  " + ": ".join(limited(printable(str(one))) for one in row))

    def write(self, store: Any) -> int:
        """Write the plan as a new version of a store, a path or what open_store gave, and return its number.

        If the newest version holds the same topologies, planned in the same way, it is that number. Raises
        StoreError (not a place for a store) and MachineError (no space, no permission).
        """
        place = path_of_store(store)
        require_store(place)
        return self._write(place)

    def release(self) -> None:
        """Give back what Spark keeps of its tables, which cannot be read any more; Arrow's stay."""
        self._release()

    def __repr__(self) -> str:
        source = limited(printable(self.source))
        return f"<penstock.Plan: {self._counted()}; {len(self.tables)} tables; {source}>"

    def _repr_html_(self) -> str:
        rows = [(name, _rows(self.tables, name)) for name in self.tables]
        return html_table(f"{self._counted()}; {limited(self.source)}", ("table", "rows"), rows)

    def _counted(self) -> str:
        return f"{self.planned:,} planned, {self.rejected:,} rejected of {self.inputs:,} topologies"


def _rows(tables: Tables, name: str) -> str:
    """How many rows a table has, where it is known without work."""
    rows = getattr(tables._made.get(name), "num_rows", None)
    return "" if rows is None else f"{rows:,}"


def _first_rows(table: Any, columns: tuple[str, ...], count: int) -> list[tuple[Any, ...]]:
    if hasattr(table, "toArrow"):
        table = table.select(*columns).limit(count).toArrow()
    return [tuple(row.values()) for row in table.select(list(columns)).slice(0, count).to_pylist()]
