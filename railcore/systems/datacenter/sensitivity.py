"""How far the exposed share moves when one assumption does, and which assumption matters most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from railcore.facts.sensitivity import tornado_table
from railcore.facts.units import show
from railcore.systems.datacenter.exposed import OVERLAP_RULES
from railcore.systems.datacenter.scenario import Case

RULE = "rule of overlap"


@dataclass(frozen=True)
class Assumption:
    """Part of a case, field in it, unit, and its low and high: two values, or factors on the case's own value."""

    part: str
    field: str
    unit: str = ""
    factors: tuple[float, float] = (0.5, 2.0)
    values: tuple[Any, Any] | None = None

    def ends(self, case: Case) -> tuple[Any, ...]:
        """Low and high value."""
        if self.values is not None:
            return self.values
        now = getattr(getattr(case, self.part), self.field)
        return tuple(type(now)(now * factor) for factor in self.factors)


ASSUMPTIONS = {
    "scale-up bandwidth of a GPU": Assumption("site", "hb_Bps", "bps"),
    "scale-out bandwidth of a GPU": Assumption("site", "nic_Bps", "bps"),
    "wide-area capacity of a GPU": Assumption("site", "wan_Bps", "bps"),
    "delay between datacenters": Assumption("site", "one_way_delay_s", "s"),
    "round trips lost at the tail": Assumption("site", "tail_loss_rtts", values=(0.0, 1.0)),
    "datacenters": Assumption("site", "datacenters", values=(1, 4)),
    "racks": Assumption("site", "racks"),
    "GPUs of a rack": Assumption("site", "rack_gpus"),
    "rate of a GPU": Assumption("site", "gpu_rate", "FLOP/s"),
    "memory of a GPU": Assumption("site", "memory_bytes", "B"),
    "bytes of a gradient": Assumption("precision", "gradients", "B"),
    "bytes of an activation": Assumption("precision", "element", "B"),
    "sequence length": Assumption("model", "sequence_length", "tokens"),
    "sequences of a micro-batch": Assumption("case", "micro_batch", values=(1, 2)),
    "recomputed passes": Assumption("options", "recomputed", values=(0.0, 3.0)),
    "steps 1 and 2": Assumption("options", "reduce", values=("reduce_scatter", "all_reduce")),
}


def exposed_sensitivity(cases: Mapping[str, Case], assumptions: Sequence[str] = tuple(ASSUMPTIONS)) -> pd.DataFrame:
    """Exposed share of each case with one assumption at its low and at its high, all others as they are.

    assumptions: names of `ASSUMPTIONS`. The last row is the rule of overlap: the least and the largest of
    `exposed.OVERLAP_RULES`. An end at which the model does not fit leaves the share where it is and says so.
    Columns of `tornado_table`, and model.
    """
    tables = []
    for model, case in cases.items():
        shares = {rule: float(case.changed(case={"rule": rule}).share) for rule in OVERLAP_RULES}
        rules = sorted(OVERLAP_RULES, key=lambda rule: (shares[rule], rule))
        ends = {name: ASSUMPTIONS[name].ends(case) for name in assumptions} | {RULE: (rules[0], rules[-1])}
        table = tornado_table(ends, partial(_share, case), float(case.share), _text)
        for side in ("low", "high"):
            misfit = table[f"at_{side}"].isna()
            table.loc[misfit, side] += " does not fit"
            table.loc[misfit, f"at_{side}"] = table["centre"]
        tables.append(table.assign(model=model))
    return pd.concat(tables)


def _share(case: Case, name: str, end: Any) -> float:
    if name == RULE:
        return float(case.changed(case={"rule": end}).share)
    where = ASSUMPTIONS[name]
    return float(case.changed(**{where.part: {where.field: end}}).share)


def _text(name: str, value: Any) -> str:
    return value if isinstance(value, str) else show(value, ASSUMPTIONS[name].unit, 5)
