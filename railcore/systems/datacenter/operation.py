"""Time, energy and cost of a training run, and what an hour of the machine costs.

Symbols: N parameters that a token meets, D tokens, F peak rate of the machine, u utilization, x exposed share, G
goodput; T = 6 N D / (F u (1 - x) G).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.facts.units import day
from railcore.systems.datacenter.sizing import Sizing
from railcore.training.scaling_laws import FLOPS_PER_PARAMETER_TOKEN, ScalingLaw
from railcore.training.transformer import Transformer


@dataclass(frozen=True)
class Prices:
    """What time on a machine costs.

    electricity_price [USD/J]; useful_life: over which the whole budget wears out in equal parts [s]; mean_load: power
    drawn over rated power. Raises ValueError naming the argument that is out of range.
    """

    electricity_price: float
    useful_life: float
    mean_load: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.electricity_price < np.inf:
            raise ValueError(f"electricity_price is {self.electricity_price!r}: give 0 USD/J or more")
        if not 0 < self.useful_life < np.inf:
            raise ValueError(f"useful_life is {self.useful_life!r}: give positive seconds")
        if not 0 < self.mean_load <= 1:
            raise ValueError(f"mean_load is {self.mean_load!r}: give a share above 0 and at most 1")

    def per_second(self, machine: Sizing) -> tuple[Any, Any]:
        """Energy and wear of a machine [USD/s]: load x power x price (PUE included), budget / useful life."""
        energy = np.asarray(machine.total_w) * self.mean_load * self.electricity_price
        return energy, np.asarray(machine.budget_usd, float) / self.useful_life


@dataclass(frozen=True)
class Run:
    """A training run; arrays of one shape.

    tokens: D. flops: of the model, 6 N D [FLOP]. time_s: T. energy_J: of the facility in that time.
    energy_usd; wear_usd: budget x T / useful life, more than the budget where T is longer than that life.
    """

    tokens: Any
    flops: Any
    time_s: Any
    energy_J: Any
    energy_usd: Any
    wear_usd: Any

    @property
    def total_usd(self) -> Any:
        """Energy and wear [USD]."""
        return self.energy_usd + self.wear_usd

    @property
    def token_usd(self) -> Any:
        """Cost of a token trained on [USD]."""
        return self.total_usd / self.tokens


def prices(bound: str = "value", wear: str = "value") -> Prices:
    """Prices of the catalog. bound: "value", "low" or "high" of electricity and load; wear: of the useful life."""
    energy, machine = catalog.item("prices", "energy"), catalog.item("operation", "machine")
    for name, value in (("bound", bound), ("wear", wear)):
        if value not in ("value", "low", "high"):
            raise ValueError(f"{name} is {value!r}: give 'value', 'low' or 'high'")
    return Prices(
        getattr(energy.row("electricity_price"), bound),
        getattr(machine.row("useful_life"), wear),
        getattr(machine.row("mean_load"), bound),
    )


def training_run(
    parameters: ArrayLike,
    tokens: ArrayLike,
    machine: Sizing,
    costs: Prices,
    utilization: ArrayLike = 1.0,
    exposed: ArrayLike = 0.0,
    goodput: ArrayLike = 1.0,
) -> Run:
    """A run of D tokens through N active parameters: T = 6 N D / (F u (1 - x) G), F the machine's dense rate.

    utilization u: of the time that GPUs compute; a measured MFU has the exposed communication in it: x is 0 then.
    exposed x: share of an iteration. goodput G: share of the wall time that advances the job.
    Attention scores are not in 6 N D. Raises ValueError naming a share that is out of range.
    """
    for name, value, low, high in (
        ("utilization", utilization, 0, 1),
        ("goodput", goodput, 0, 1),
        ("parameters", parameters, 0, np.inf),
        ("tokens", tokens, 0, np.inf),
    ):
        given = np.asarray(value, float)
        if not np.all((given > low) & (given <= high) & np.isfinite(given)):
            raise ValueError(f"{name} is {value!r}: give a number above 0" + (" and at most 1" if high == 1 else ""))
    x = np.asarray(exposed, float)
    if not np.all((x >= 0) & (x < 1)):
        raise ValueError(f"exposed is {exposed!r}: give a share from 0, below 1")
    d = np.asarray(tokens, float)
    flops = FLOPS_PER_PARAMETER_TOKEN * np.asarray(parameters, float) * d
    time = flops / (machine.dense_flops * np.asarray(utilization, float) * (1 - x) * np.asarray(goodput, float))
    energy_rate, wear_rate = costs.per_second(machine)
    drawn = machine.total_w * costs.mean_load * time
    return Run(d, flops, time, drawn, energy_rate * time, wear_rate * time)


def utilizations(
    gpu: str, exposed: float, goodput: float, published: str = "Llama-3 405B"
) -> dict[str, dict[str, float]]:
    """Arguments of `training_run` from the ideal to what has been measured.

    Full utilization; communication not hidden; the GPU's fastest measured products on top, where the same seconds of
    communication are the smaller share x u / (1 - x + x u); and the MFU of a published run at its high, middle and
    low, in which all of that and the pipeline's fill and drain are contained. exposed x: at the GPU's peak rate;
    goodput: from the second case on.
    """
    kernels, mfu = catalog.item("efficiencies", gpu), catalog.item("models", published).row("model_flops_utilization")
    best = kernels["matmul_fraction_fp8" if "matmul_fraction_fp8" in kernels else "matmul_fraction_bf16"]
    sustained = best * catalog.item("efficiencies", "all")["sustained_fraction"]
    cases = {
        "full utilization": {"utilization": 1.0, "exposed": 0.0, "goodput": 1.0},
        "exposed communication": {"utilization": 1.0, "exposed": exposed, "goodput": goodput},
        "measured products": {
            "utilization": sustained,
            "exposed": exposed * sustained / (1 - exposed + exposed * sustained),
            "goodput": goodput,
        },
    }
    for end, value in (("high", mfu.high), ("middle", mfu.value), ("low", mfu.low)):
        cases[f"MFU of {published}, {end}"] = {"utilization": value, "exposed": 0.0, "goodput": goodput}
    return cases


def training_runs(
    models: Mapping[str, Transformer],
    exposed: Mapping[str, float],
    goodput: float,
    machine: Sizing,
    law: ScalingLaw,
    gpu: str,
) -> pd.DataFrame:
    """`training_run` of each model in each case of `utilizations`, over its loss-optimal tokens by a law.

    exposed: shares, by model. A mixture is taken as a dense model of the parameters that a token meets. Costs are low,
    middle and high by the catalog's bounds, a long life being cheap.
    Rows model, case, parameters, tokens, text_passes (tokens over the public stock of text), utilization,
    exposed_share, goodput, time_days, lives (T over the useful life), energy_TWh, energy_usd, wear_usd, total_usd and
    its low and high, cost_per_million_tokens_usd.
    """
    stock = catalog.item("operation", "text")["public_stock"]
    ends = {"low": prices("low", "high"), "middle": prices(), "high": prices("high", "low")}
    rows = []
    for name, model in models.items():
        n = float(model.active_parameters)
        tokens = float(law.tokens(law.compute(n)))
        for case, shares in utilizations(gpu, exposed[name], goodput).items():
            runs = {end: training_run(n, tokens, machine, price, **shares) for end, price in ends.items()}
            middle = runs["middle"]
            row = {"model": name, "case": case, "parameters": n, "tokens": tokens, "text_passes": tokens / stock}
            row |= {"utilization": shares["utilization"], "exposed_share": shares["exposed"]}
            row |= {"goodput": shares["goodput"], "time_days": middle.time_s / day}
            row |= {
                "lives": middle.time_s / ends["middle"].useful_life,
                "energy_TWh": units.convert(middle.energy_J, "TWh"),
            }
            row |= {"energy_usd": middle.energy_usd, "wear_usd": middle.wear_usd, "total_usd": middle.total_usd}
            row |= {f"total_{end}_usd": runs[end].total_usd for end in ("low", "high")}
            rows.append({**row, "cost_per_million_tokens_usd": middle.token_usd * 1e6})
    return pd.DataFrame(rows)
