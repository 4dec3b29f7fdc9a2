"""Two plans side by side: what differs in their specs and answers, and which input made it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
from pydantic import BaseModel

from railcore.catalog.tables import aligned_table
from railcore.catalog.units import number
from railcore.planner.planning import Shared, plan
from railcore.planner.result import Plan
from railcore.planner.shown_numbers import NUMBERS, interval, shown
from railcore.planner.spec import Spec
from railcore.planner.spec_texts import value_text

_TOLD = ("gpus", "days", "cost_usd", "purchase_usd", "network_usd", "power_w", "goodput", "iteration_s", "mfu", "batch")
_EFFECTS = ("days", "cost_usd", "purchase_usd")
_MOST_KEYS = 8  # that are changed alone
_NO_INPUT = ("title", "author", "date", "books.file")  # what the file has stands in its keys
_SAME = 5e-4  # relative difference below which two numbers are equal


@dataclass(frozen=True)
class Differences:
    """What differs between two plans, `after` against `before`."""

    before: Plan
    after: Plan

    @cached_property
    def spec(self) -> pd.DataFrame:
        """Keys whose values differ: key, before, after as texts."""
        sides = [dict(_values(side.spec)) for side in (self.before, self.after)]
        rows = []
        for key in dict.fromkeys([*sides[0], *sides[1]]):
            values = [side.get(key) for side in sides]
            if values[0] != values[1]:
                texts = ["-" if value is None else value_text(key, value) for value in values]
                rows.append({"key": key, "before": texts[0], "after": texts[1]})
        return pd.DataFrame(rows, columns=["key", "before", "after"])

    @cached_property
    def answer(self) -> pd.DataFrame:
        """Numbers of the two best networks: number, before and after in SI units, change as a share of before."""
        rows = []
        for name in _TOLD:
            pair = [side.best.numbers[name] for side in (self.before, self.after) if side.best]
            if len(pair) == 2:
                rows.append({"number": name, "before": pair[0], "after": pair[1], "change": _change(*pair)})
        return pd.DataFrame(rows, columns=["number", "before", "after", "change"])

    @cached_property
    def causes(self) -> pd.DataFrame:
        """What each key that differs does alone in the spec before: key, changes of days, cost and purchase, note.

        Changes (days, cost_usd, purchase_usd) are shares of the number before; NaN where the spec with this key alone
        cannot be planned: note says why. "all of them" is what the two answers differ by: keys that act together do not
        add up to it. The largest effect on the number that decides comes first.
        """
        shared, rows, groups = Shared(), [], list(dict.fromkeys(map(_group, self.spec["key"])))
        for group in groups[:_MOST_KEYS] if len(groups) > 1 else []:
            keys = [key for key in self.spec["key"] if _group(key) == group]
            rows.append({"key": " and ".join(keys), **self._effect(keys, shared)})
        rows.sort(key=lambda row: -abs(row.get(self.before.rank, 0.0)))
        whole = dict(zip(self.answer["number"], self.answer["change"], strict=True))
        note = "; ".join(filter(None, [self._best_text(), _left_out(len(groups))]))
        rows.append({"key": "all of them", **{name: whole.get(name) for name in self.effects}, "note": note})
        return pd.DataFrame(rows, columns=["key", *self.effects, "note"])

    @property
    def effects(self) -> list[str]:
        """Numbers whose changes are told: the one that decides among them."""
        return list(dict.fromkeys([*_EFFECTS, self.before.rank]))

    def _effect(self, keys: Sequence[str], shared: Shared) -> dict[str, Any]:
        """What some keys of the second spec change in the first plan."""
        try:
            other = plan(_with_keys(self.before.spec, self.after.spec, keys), shared=shared)
        except ValueError as error:
            return {"note": f"not alone: {error}"}
        if other.best is None or self.before.best is None:
            return {"note": "no network runs the job"}
        numbers = [side.best.numbers for side in (self.before, other) if side.best]
        changes = {name: _change(numbers[0][name], numbers[1][name]) for name in self.effects}
        return changes | {"note": "" if other.best.name == self.before.best.name else f"{other.best.name} is best"}

    def _best_text(self) -> str:
        names = [side.best.name if side.best else "none" for side in (self.before, self.after)]
        return "" if names[0] == names[1] else f"{names[1]} is best, not {names[0]}"

    @property
    def text(self) -> str:
        """The answer in sentences: what the numbers do, and which input alone does most of each."""
        if self.before.best is None or self.after.best is None:
            return "One of the two plans has no network that runs its job."
        if self.spec.empty:
            return "The two specs are the same."
        whole = self.causes.iloc[-1]
        changes = [f"{NUMBERS[name].label} {_percent(whole[name])}" for name in self.effects]
        told = f"The second plan against the first: {', '.join(changes)}."
        alone = self.causes.iloc[:-1]
        for name in self.effects if len(alone) else ():
            effects = alone[name].astype(float) * (1 if whole[name] > 0 else -1)  # of the same sign as the whole
            if effects.max() > 0 and whole[name]:
                cause = alone.loc[effects.idxmax()]
                told += f" {NUMBERS[name].label.capitalize()}: most by {cause['key']} ({_percent(cause[name])} alone)."
        days = [side.days_interval for side in (self.before, self.after)]
        if whole["days"] and max(low for low, _ in days) < min(high for _, high in days):
            told += " The intervals of the days overlap: the order may be the other one."
        return told

    def tables(self) -> dict[str, pd.DataFrame]:
        """The three tables as texts, by their captions."""
        numbers = self.answer["number"].tolist()
        answer = {
            "": [NUMBERS[name].label for name in numbers],
            "first": [shown(name, value) for name, value in zip(numbers, self.answer["before"], strict=True)],
            "second": [shown(name, value) for name, value in zip(numbers, self.answer["after"], strict=True)],
            "change": [_percent(value) for value in self.answer["change"]],
        }
        heads: list[list[str]] = [["best network"], ["days, nine of ten cases"]]
        for side in (self.before, self.after):
            heads[0].append(side.best.name if side.best else "none")
            heads[1].append(interval("days", *side.days_interval) if side.best else "-")
        first = pd.DataFrame([[*row, ""] for row in heads], columns=list(answer))
        causes = self.causes.assign(**{name: [_percent(value) for value in self.causes[name]] for name in self.effects})
        labels = {name: NUMBERS[name].label for name in self.effects} | {"key": "input, alone", "note": "then"}
        return {
            "What differs in the spec": self.spec.rename(columns={"before": "first", "after": "second"}),
            "What differs in the answer": pd.concat([first, pd.DataFrame(answer)], ignore_index=True),
            "Which input makes it": causes.rename(columns=labels),
        }

    def document(self) -> dict[str, Any]:
        """Text and tables for the page."""
        told = [
            {
                "caption": caption,
                "head": list(table.columns),
                "align": "l" + "r" * (table.shape[1] - 2) + ("l" if caption.startswith("Which") else "r"),
                "rows": table.astype(str).to_numpy().tolist(),
            }
            for caption, table in self.tables().items()
        ]
        return {"text": self.text, "tables": told}


def _values(spec: Spec) -> list[tuple[str, Any]]:
    """Dotted keys and values of a spec, those of sections that may be left out too; without texts of the page."""
    rows = []
    for name in type(spec).model_fields:
        part = getattr(spec, name)
        if isinstance(part, BaseModel):
            rows += [(f"{name}.{key}", getattr(part, key)) for key in type(part).model_fields]
        else:
            rows.append((name, part))
    return [(key, value) for key, value in rows if value not in (None, (), [], {}) and key not in _NO_INPUT]


def _group(key: str) -> str:
    """What is changed together: all that says the size, of which a spec has one."""
    return "size" if key in _SIZES or key.startswith("find.") else key


_SIZES = ("cluster.gpus", "cluster.racks", "cluster.budget", "cluster.power")


def _with_keys(spec: Spec, other: Spec, keys: Sequence[str]) -> Spec:
    """A spec with some keys of another; one that says the size takes all of them along."""
    if any(_group(key) == "size" for key in keys):
        keys = [*_SIZES, "find"]
    for dotted in keys:
        name, _, key = dotted.partition(".")
        ours, theirs = getattr(spec, name), getattr(other, name)
        part = theirs  # of a section that one of them lacks
        if key and ours is not None and theirs is not None:
            part = ours.model_copy(update={key: getattr(theirs, key)})
        spec = spec.model_copy(update={name: part})
    return spec


def _left_out(groups: int) -> str:
    """That some keys were not tried alone."""
    return f"{groups - _MOST_KEYS} more keys were not tried alone" if groups > _MOST_KEYS else ""


def _change(before: float, after: float) -> float:
    """Change as a share of the number before; 0 where they are equal as shown."""
    change = after / before - 1 if before else 0.0
    return change if abs(change) >= _SAME else 0.0


def _percent(share: Any) -> str:
    if share is None or share != share:
        return ""
    return "the same" if share == 0 else f"{'+' if share > 0 else '-'}{number(100 * abs(share), 3)}%"


def differences_text(document: Mapping[str, Any]) -> str:
    """What differs, for a terminal. document: of `Differences`."""
    texts = [document["text"]]
    for table in document["tables"]:
        rows = [dict(zip(table["head"], row, strict=True)) for row in table["rows"]]
        texts += ["", f"{table['caption']}:", aligned_table(rows).rstrip()]
    return "\n".join(texts)
