"""What a search found: the best strategies, counts, designs, and merging the results of parts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import pandas as pd

from railcore.catalog.arguments import NeededColumns, Range, checked
from railcore.catalog.tables import readable
from railcore.catalog.units import show
from railcore.strategies import advice, answers
from railcore.strategies.answers import KEPT_DESIGNS
from railcore.strategies.kernel import TIME_EDGES_S
from railcore.strategies.space import DESIGN, KEY
from railcore.training.iteration import IterationEstimate, iteration_times
from railcore.training.machine import Machine
from railcore.training.parallelism import LEVEL_NAMES, STRATEGY_SWITCHES
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer
from railcore.training.unique_rows import Columns

NUMBERS = ("sequence_s", "total_s", "memory_bytes")
_ROW = (*STRATEGY_COLUMNS, *NUMBERS, "part")
Rows = Annotated[Columns, NeededColumns(_ROW)]
DesignCount = Annotated[int, Range(1, KEPT_DESIGNS)]


@dataclass(frozen=True)
class SearchResult:
    """What a search found. A strategy is a row with columns STRATEGY_COLUMNS, sequence_s, total_s and memory_bytes.

    parts: what was searched for, a `SearchPart` for each choice of software, offload and GPUs used of an HB domain.
    counts: strategies by what rules them out, "feasible" among them.
    splits: ways to split the GPUs over tensor, context, pipeline and data ranks, by the first obstacle or "feasible".
    least_memory_bytes: of all strategies that divide.
    histogram: feasible strategies by time per sequence, between TIME_EDGES_S.
    fastest, leaders: the best strategies and the best of each design as columns of whole numbers, with the number of
        their part; `best` and `designs` are made of them.
    bounds: splits that were searched, with their part and least_s, a time that a sequence takes at least [s].
    """

    parts: tuple[Any, ...]
    counts: dict[str, int]
    splits: dict[str, int]
    least_memory_bytes: float
    histogram: np.ndarray
    fastest: Columns
    leaders: Columns
    bounds: Columns = field(repr=False)

    @classmethod
    def merged(cls, results: Iterable["SearchResult"]) -> "SearchResult":
        """One result of all parts, equal to a search of all at once; merging in steps gives the same.

        Of equal time and memory the first part's strategy stays, in a part the first one by KEY. Raises ValueError for
        no results, and for results that kept different numbers of strategies.
        """
        results = list(results)
        parts = dict.fromkeys(part for result in results for part in result.parts)
        if len({part.top for part in parts}) != 1:
            raise ValueError("results are none, or kept different numbers of strategies: merge those of one search")
        if len(results) == 1:
            return results[0]
        number = {part: i for i, part in enumerate(parts)}

        def joined(name: str) -> Columns:
            tables = [getattr(result, name) for result in results]
            rows = {column: np.concatenate([table[column] for table in tables]) for column in tables[0]}
            places = [np.array([number[part] for part in result.parts], np.int64) for result in results]
            rows["part"] = np.concatenate([place[table["part"]] for place, table in zip(places, tables, strict=True)])
            return rows

        def ordered(name: str) -> Columns:
            rows = joined(name)
            order = np.lexsort([*(rows[name] for name in reversed(("memory_bytes", "part", *KEY))), rows["sequence_s"]])
            return {column: values[order] for column, values in rows.items()}

        fastest, leaders = ordered("fastest"), ordered("leaders")
        new = pd.DataFrame({name: leaders[name] for name in ("part", *DESIGN)}).duplicated().to_numpy()
        return cls(
            parts=tuple(parts),
            counts=_sums(result.counts for result in results),
            splits=_sums(result.splits for result in results),
            least_memory_bytes=min(result.least_memory_bytes for result in results),
            histogram=np.sum([result.histogram for result in results], axis=0),
            fastest=_some(fastest, _fastest(fastest["sequence_s"], fastest["memory_bytes"], results[0].parts[0].top)),
            leaders=_some(leaders, np.flatnonzero(~new)[:KEPT_DESIGNS]),
            bounds=joined("bounds"),
        )

    @property
    def model(self) -> Transformer:
        """What is trained."""
        return self.parts[0].model

    @property
    def machine(self) -> Machine:
        """A GPU and its links, as given."""
        return self.parts[0].machine

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.parts[0].gpus

    @cached_property
    def best(self) -> pd.DataFrame:
        """The strategies of least time per sequence, in order; of equal time and memory one.

        Where parts differ, columns say in what: gpus and hb_domain_size in use, offload, runtime. `iteration_times` and
        others take a row, or the whole table, in place of a `Strategy`.
        """
        return self.table(self.fastest)

    @checked
    def table(self, rows: Rows) -> pd.DataFrame:
        """Strategies with levels and placement by name and switches as True or False; columns are those of `best`.

        rows: some of `fastest` or `leaders`.
        """
        columns = {name: rows[name] for name in (*STRATEGY_COLUMNS, *NUMBERS)}
        columns |= {name: np.asarray(names)[rows[name]] for name, names in LEVEL_NAMES.items()}
        columns |= {name: rows[name].astype(bool) for name in STRATEGY_SWITCHES}
        if self.parts[0].at_most:
            columns["gpus"] = np.prod([rows[name] for name in ("tensor", "context", "pipeline", "data")], axis=0)
        varying = {
            "hb_domain_size": [part.machine.hb_domain_size for part in self.parts],
            "offload": [" and ".join(part.offload) or "none" for part in self.parts],
            "runtime": [part.runtime.name for part in self.parts],
        }
        columns |= {name: np.asarray(values)[rows["part"]] for name, values in varying.items() if len(set(values)) > 1}
        return pd.DataFrame(columns)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Where GPUs do not fill HB domains, or groups of the best lie unevenly in them; and calls to compare with.

        Each call has its HB domains, their cost and the time of its best strategy; those of `faster` are among them.
        """
        uneven = self.estimates(_some(self.fastest, [0])).warnings if len(self.best) else ()
        return uneven if self.parts[0].at_most else advice.warnings(self, uneven)

    @cached_property
    def faster(self) -> tuple[str, ...]:
        """Calls that are faster on fewer GPUs or with another batch, and their times; none with at_most.

        They take searches of their own, which run when this is asked for or the result is printed.
        """
        return () if self.parts[0].at_most else advice.faster(self)

    @property
    def evaluated(self) -> int:
        """Strategies evaluated."""
        return sum(self.counts.values())

    def strategy(self) -> dict[str, Any]:
        """The best strategy by STRATEGY_COLUMNS, as a row of `best` has it.

        Raises ValueError where none is feasible: the least memory needed, and the GPU's.
        """
        if len(self.best):
            return self.best[list(STRATEGY_COLUMNS)].head(1).to_dict("records")[0]
        raise ValueError(self._nothing_fits)

    @property
    def _nothing_fits(self) -> str:
        """Why no strategy is feasible."""
        if not self.evaluated:
            stopped = f"splits by what stops them: {self.splits}" if self.splits else "none has the degrees allowed"
            ways = " ".join(self.faster)
            remedy = (
                f"change the batch, or leave GPUs idle: {ways}" if ways else "allow other degrees, or change the batch"
            )
            return f"no split of {self.gpus} GPUs divides {self.model.name} and its batch ({stopped}): {remedy}"
        return (
            f"{self.model.name} fits no strategy of {self.gpus} GPUs: the least needs "
            f"{show(self.least_memory_bytes, 'B', 4)} of a GPU's {show(self.machine.memory_bytes, 'B', 4)}: "
            "take more GPUs or larger ones"
        )

    def __repr__(self) -> str:
        others = {name: count for name, count in self.counts.items() if count and name != "feasible"}
        ruled_out = ", ".join(f"{name} {count:,}" for name, count in others.items())
        first = (
            f"{self.model.name} on {self.gpus:,} GPUs ({self.machine.gpu}): {self.evaluated:,} strategies, "
            f"{self.counts['feasible']:,} feasible{f'; ruled out: {ruled_out}' if ruled_out else ''}"
        )
        if self.best.empty:
            return f"{first}\n{self._nothing_fits}"
        shown = ["strategy", "total_s", "memory_bytes", "times_best", "hb_utilization", "nic_utilization"]
        return "\n".join([first, readable(self.designs()[shown], 4).to_string(index=False), *self.faster])

    def distribution(self) -> pd.DataFrame:
        """Feasible strategies by time: columns times_best (over the best strategy's time) and share, cumulative."""
        if self.best.empty:
            return pd.DataFrame({"times_best": [], "share": []})
        some = np.flatnonzero(self.histogram)
        times = np.maximum(TIME_EDGES_S[some + 1] / self.best["sequence_s"].iloc[0], 1.0)
        return pd.DataFrame({"times_best": times, "share": np.cumsum(self.histogram[some]) / self.histogram.sum()})

    @checked
    def estimates(self, rows: Rows, **changes: Any) -> IterationEstimate:
        """`iteration_times` of strategies, each with its part's machine, software and offload.

        rows: some of `fastest` or `leaders`. changes: fields of the machine that are others, such as nic_Bps.
        """
        places, estimates = [], []
        for number in np.unique(rows["part"]).tolist() or [0]:
            part, of_part = self.parts[number], rows["part"] == number
            columns = {name: rows[name][of_part] for name in STRATEGY_COLUMNS}
            box = part.machine.changed(**changes) if changes else part.machine
            places.append(np.flatnonzero(of_part))
            estimates.append(iteration_times(part.model, box, columns, part.runtime, part.offload))
        order = np.argsort(np.concatenate(places))
        joined: dict[str, Any] = {}
        for column in fields(IterationEstimate):
            values = [getattr(estimate, column.name) for estimate in estimates]
            if isinstance(values[0], dict):
                joined[column.name] = {
                    key: np.concatenate([value[key] for value in values])[order] for key in values[0]
                }
            elif isinstance(values[0], tuple):
                joined[column.name] = tuple(dict.fromkeys(text for texts in values for text in texts))
            else:
                joined[column.name] = np.concatenate(values)[order]
        return IterationEstimate(**joined)

    @checked
    def designs(self, n: DesignCount = 5) -> pd.DataFrame:
        """The best n designs, each by its fastest strategy; see `answers.designs`. n: at most KEPT_DESIGNS."""
        return answers.designs(self, n)

    @checked
    def runner_up_wins(self, n: DesignCount = 2) -> pd.DataFrame:
        """What would have to change for design n to be faster than the best one; see `answers.runner_up_wins`."""
        return answers.runner_up_wins(self, n)

    @checked
    def robust(self, n: DesignCount = 5) -> pd.DataFrame:
        """The best n designs with uncertain inputs at their low and high ends; see `answers.robust`."""
        return answers.robust(self, n)


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for of_result in counts:
        for name, number in of_result.items():
            total[name] = total.get(name, 0) + number
    return total


def _some(rows: Columns, places: Any) -> Columns:
    return {name: values[places] for name, values in rows.items()}


def _fastest(time: np.ndarray, memory: np.ndarray, top: int) -> np.ndarray:
    """Places of the least times, in order; of strategies with the same time and memory the first."""
    order = np.lexsort((memory, time))
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(time[order]) > 0) | (np.diff(memory[order]) != 0)
    return order[new][:top]
