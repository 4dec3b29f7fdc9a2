"""How far the exposed share moves when one assumption does, and which assumption matters most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railcore.facts.units import show
from railcore.systems.datacenter.exposed import RULES
from railcore.systems.datacenter.scenario import Case

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Input:
    """An assumption: name, part of a case, field in it, unit, and two values or factors on the case's own value."""

    name: str
    part: str
    field: str
    unit: str = ""
    factors: tuple[float, float] = (0.5, 2.0)
    values: tuple[Any, Any] | None = None

    def ends(self, case: Case) -> tuple[Any, Any]:
        """Low and high value."""
        if self.values is not None:
            return self.values
        now = getattr(getattr(case, self.part), self.field)
        return tuple(type(now)(now * factor) for factor in self.factors)  # type: ignore[return-value]

    def text(self, value: Any) -> str:
        """A value as people write it."""
        return value if isinstance(value, str) else show(value, self.unit, 5)


INPUTS = (
    Input("scale-up bandwidth of a GPU", "site", "hb_Bps", "bps"),
    Input("scale-out bandwidth of a GPU", "site", "nic_Bps", "bps"),
    Input("wide-area capacity of a GPU", "site", "wan_Bps", "bps"),
    Input("delay between datacenters", "site", "one_way_delay_s", "s"),
    Input("round trips lost at the tail", "site", "tail_loss_rtts", "", values=(0.0, 1.0)),
    Input("datacenters", "site", "datacenters", "", values=(1, 4)),
    Input("racks", "site", "racks", ""),
    Input("GPUs of a rack", "site", "rack_gpus", ""),
    Input("rate of a GPU", "site", "gpu_rate", "FLOP/s"),
    Input("memory of a GPU", "site", "memory_bytes", "B"),
    Input("bytes of a gradient", "precision", "gradients", "B"),
    Input("bytes of an activation", "precision", "element", "B"),
    Input("sequence length", "model", "sequence_length", "tokens"),
    Input("sequences of a micro-batch", "case", "micro_batch", "", values=(1, 2)),
    Input("recomputed passes", "options", "recomputed", "", values=(0.0, 3.0)),
    Input("steps 1 and 2", "options", "reduce", "", values=("reduce_scatter", "all_reduce")),
)


def sensitivity(case: Case, inputs: Sequence[Input] = INPUTS) -> "pd.DataFrame":
    """Exposed share with one assumption at its low and at its high, all others as in the case; most important first.

    The last input is the rule of overlap: the least and the largest of `exposed.RULES`. An end at which the model does
    not fit, or which the case has already, leaves the share where it is and says so.
    Columns input, low, high (texts), at_low, at_high, centre, swing (distance of the ends).
    """
    import pandas as pd

    centre, rows = float(case.share), []
    for each in inputs:
        ends = each.ends(case)
        shares = [float(case.changed(**{each.part: {each.field: end}}).share) for end in ends]
        texts = [
            each.text(end) + ("" if share == share else " does not fit")
            for end, share in zip(ends, shares, strict=True)
        ]
        rows.append((each.name, *texts, *(share if share == share else centre for share in shares)))
    by_rule = sorted((float(case.changed(case={"rule": rule}).share), rule) for rule in RULES)
    rows.append(("rule of overlap", by_rule[0][1], by_rule[-1][1], by_rule[0][0], by_rule[-1][0]))
    table = pd.DataFrame(rows, columns=["input", "low", "high", "at_low", "at_high"]).assign(centre=centre)
    table["swing"] = table[["at_low", "at_high", "centre"]].max(axis=1) - table[["at_low", "at_high", "centre"]].min(
        axis=1
    )
    return table.sort_values("swing", ascending=False, kind="stable", ignore_index=True)
