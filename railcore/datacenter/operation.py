"""Training on a machine: the model that a budget trains, and the time and cost of training runs.

The model is loss-optimal for its time, or the largest that the racks hold. A training run costs time, energy and wear:
T = 6 N D / (F u (1 - x) G) with N parameters that a token meets, D tokens, F peak rate of the machine, u utilization, x
exposed share, G goodput.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import units
from railcore.catalog.units import day, show
from railcore.datacenter.exposed import layer_times
from railcore.datacenter.layouts import Layer, model_layer, rack_layout
from railcore.datacenter.sizing import DatacenterSite, Sizing, datacenter_site, datacenter_size, narrowest_format
from railcore.training.formats import Precision, catalog_precision
from railcore.training.scaling_laws import FLOPS_PER_PARAMETER_TOKEN, ScalingLaw, scaling_law, whole_shape
from railcore.training.transformer import Transformer

CANDIDATE_PARAMETERS = np.geomspace(1e9, 1e18, 900)  # sizes of `largest_parameters`, 2.3% apart
_PUBLISHED_RUN = "Llama-3 405B"  # a model of the catalog with a measured MFU


def models_by_budget(
    platforms: Sequence[str],
    budgets_usd: Sequence[float],
    like: Transformer,
    days: float,
    price_book: str,
    catalog_site: str,
    law_name: str = "Hoffmann 2",
) -> pd.DataFrame:
    """The loss-optimal model of a training time on each machine, or the largest that its racks hold.

    Number format and bytes per parameter are the narrowest of the platform's GPU, in the catalog's precisions.

    Parameters
    ----------
    platforms, budgets_usd
        Of the catalog, with prices and powers; of the whole datacenter [USD].
    like
        Its vocabulary, sequence length and proportions, in the shape of the depth-to-width rule.
    days
        Training time at full utilization [days].
    price_book, catalog_site
        Of the catalog's prices (`datacenter_size`) and sites (`datacenter_site`).
    law_name
        Of the scaling laws.

    Returns
    -------
    Columns platform, format, budget_usd, racks, gpus, power_w (of the facility), optimal_parameters,
    largest_parameters (that fit), parameters (that are trained), layers, hidden, tensor_degree, replicas,
    exposed_share, time_days (until the trained model is loss-optimal, with the exposed share of its layout) and limit:
    "time", or why the loss-optimal model does not fit.
    """
    tables, law = [], scaling_law(law_name)
    budget = np.asarray(budgets_usd, float)
    for platform in platforms:
        number_format = narrowest_format(catalog.item("platforms", platform)["gpu"])
        items = (catalog.item("precisions", name) for name in catalog.names("precisions"))
        bytes_of = catalog_precision(next(item.name for item in items if item["rate_format"] == number_format))
        bought = datacenter_size(budget, platform, price_book)
        racks = bought.racks.astype(int)
        machine = datacenter_site(racks, platform, f"{number_format}_dense_rate", catalog_site)
        optimal = law.parameters_after(days * day, bought.dense_flops)
        wanted, largest = layer_of_size(like, bytes_of, optimal), largest_parameters(like, bytes_of, machine)
        fits = rack_layout(wanted, machine, strict=False).tensor > 0
        trained = np.where(fits, optimal, np.minimum(optimal, largest))
        layer = layer_of_size(like, bytes_of, np.maximum(trained, CANDIDATE_PARAMETERS[0]))
        laid = rack_layout(layer, machine, strict=False)
        share = layer_times(layer, laid, machine).share()
        needed = law.training_time(trained, bought.dense_flops * (1 - np.nan_to_num(share))) / day
        columns = {
            "platform": platform,
            "format": number_format,
            "budget_usd": budget,
            "racks": racks,
            "gpus": bought.gpus.astype(int),
            "power_w": bought.total_w,
            "optimal_parameters": optimal,
            "largest_parameters": largest,
            "parameters": np.where(laid.tensor > 0, trained, np.nan),
            "layers": layer.layers.astype(int),
            "hidden": layer.hidden.astype(int),
            "tensor_degree": laid.tensor.astype(int),
            "replicas": laid.replicas_here * machine.datacenters,
            "exposed_share": share,
            "time_days": np.where(laid.tensor > 0, needed, np.nan),
            "limit": np.where(fits, "time", _limits(wanted, machine)),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def layer_of_size(like: Transformer, bytes_of: Precision, parameters: np.ndarray) -> Layer:
    """A layer of models with these parameters, in the shape of the depth-to-width rule."""
    shape = whole_shape(parameters, like.heads)
    return model_layer(like, bytes_of, 1, shape.layers, shape.hidden)


def largest_parameters(like: Transformer, bytes_of: Precision, machine: DatacenterSite) -> np.ndarray:
    """The largest of CANDIDATE_PARAMETERS that the racks hold, by `layer_of_size`; 0 for none.

    The result has the shape of the machine's racks.
    """
    racks = np.asarray(machine.racks)[..., None]
    candidates = layer_of_size(like, bytes_of, CANDIDATE_PARAMETERS)
    fits = rack_layout(candidates, replace(machine, racks=racks), strict=False).tensor > 0
    return np.max(np.where(fits, CANDIDATE_PARAMETERS, 0.0), axis=-1)


def _limits(wanted: Layer, machine: DatacenterSite) -> list[str]:
    """Why each model has no layout: a layer is more than a rack's memory, or layers are more than racks."""
    holds = float(machine.memory_bytes) * float(machine.rack_gpus)
    needs = np.asarray(wanted.layer_state_bytes + wanted.activation_bytes)
    here = np.asarray(machine.racks) / machine.datacenters
    layers = np.asarray(wanted.layers)
    return [
        f"a layer takes {show(need, 'B', 3)}, a rack has {show(holds, 'B', 3)}"
        if need > holds
        else f"{depth:,.0f} layers, {racks:,.0f} racks in a datacenter"
        for need, depth, racks in zip(needs, layers, np.broadcast_to(here, layers.shape), strict=True)
    ]


@dataclass(frozen=True)
class OperatingPrices:
    """What time on a machine costs. Fields may be arrays.

    electricity_price: [USD/J].
    useful_life: time over which the whole budget wears out in equal parts [s].
    mean_load: power drawn over rated power, above 0 to 1.
    """

    electricity_price: Any
    useful_life: Any
    mean_load: Any = 1.0

    def per_second(self, machine: Sizing) -> tuple[Any, Any]:
        """Energy and wear of a machine [USD/s]: load x power x price (PUE included), cost / useful life."""
        energy = np.asarray(machine.total_w) * self.mean_load * self.electricity_price
        return energy, np.asarray(machine.total_usd, float) / self.useful_life


@dataclass(frozen=True)
class TrainingRun:
    """A training run; arrays of one shape.

    tokens: D.
    flops: of the model, 6 N D [FLOP].
    time_s: T.
    energy_J: of the facility in that time.
    energy_usd: price of that energy.
    wear_usd: budget x T / useful life; more than the budget where T is longer than that life.
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

    def carbon_kg(self, intensity: Any) -> Any:
        """Carbon dioxide of the energy [kg]: energy x carbon intensity of the power [kg/J]."""
        return self.energy_J * intensity


def operating_prices(
    bound: Literal["low", "value", "high"] = "value", wear: Literal["low", "value", "high"] = "value"
) -> OperatingPrices:
    """Prices of the catalog. bound: of electricity price and load. wear: bound of the useful life."""
    energy, machine = catalog.item("prices", "energy"), catalog.item("operation", "machine")
    return OperatingPrices(
        getattr(energy.row("electricity_price"), bound),
        getattr(machine.row("useful_life"), wear),
        getattr(machine.row("mean_load"), bound),
    )


def training_run(
    parameters: ArrayLike,
    tokens: ArrayLike,
    machine: Sizing,
    costs: OperatingPrices,
    utilization: ArrayLike = 1.0,
    exposed: ArrayLike = 0.0,
    goodput: ArrayLike = 1.0,
) -> TrainingRun:
    """A run of D tokens through N active parameters: T = 6 N D / (F u (1 - x) G), F the machine's dense rate.

    Attention scores are not in 6 N D.

    Parameters
    ----------
    parameters, tokens
        N and D.
    machine, costs
        The machine, and what its time costs.
    utilization
        u, of the peak rate while GPUs compute. A measured MFU contains the exposed communication: give exposed 0.
    exposed
        x, share of an iteration.
    goodput
        G, share of the wall time that advances the job.

    Returns
    -------
    A `TrainingRun`.
    """
    u, x, g = (np.asarray(share, float) for share in (utilization, exposed, goodput))
    flops = FLOPS_PER_PARAMETER_TOKEN * np.asarray(parameters, float) * tokens
    return run_of_time(tokens, flops, flops / (machine.dense_flops * u * (1 - x) * g), machine, costs)


def run_of_time(
    tokens: ArrayLike, flops: ArrayLike, time_s: ArrayLike, machine: Sizing, costs: OperatingPrices
) -> TrainingRun:
    """A run of a known time T: energy = power x load x T, wear = cost x T / useful life.

    Parameters
    ----------
    tokens, flops
        D, and FLOPs of the model.
    time_s
        T [s].
    machine, costs
        The machine, and what its time costs.

    Returns
    -------
    A `TrainingRun`.
    """
    time = np.asarray(time_s, float)[()]
    energy_rate, wear_rate = costs.per_second(machine)
    energy_J = machine.total_w * costs.mean_load * time
    return TrainingRun(tokens, flops, time, energy_J, energy_rate * time, wear_rate * time)


def training_time(
    iteration_s: ArrayLike,
    batch_tokens: ArrayLike,
    tokens: ArrayLike,
    goodput: ArrayLike = 1.0,
    contingency: ArrayLike = 0.0,
) -> Any:
    """Wall time of a training run [s]: T = (D / B) t (1 + c) / G.

    Parameters
    ----------
    iteration_s
        Time of an iteration, t [s].
    batch_tokens, tokens
        Tokens of an iteration, B, and of the training, D.
    goodput
        G, share of the wall time that advances the job.
    contingency
        c, added share of time, since modelled times are those of benchmarks.

    Returns
    -------
    Seconds.
    """
    iterations = np.asarray(tokens, float) / np.asarray(batch_tokens, float)
    extra = 1 + np.asarray(contingency, float)
    return (iterations * np.asarray(iteration_s, float) * extra / np.asarray(goodput, float))[()]


def utilization_cases(gpu: str, exposed: float, goodput: float) -> pd.DataFrame:
    """Arguments of `training_run` from the ideal to measured runs.

    Cases: full utilization; with exposed communication; with the GPU's fastest measured products too, where the same
    seconds of communication are the smaller share x u / (1 - x + x u); and the MFU of a published run at its high,
    middle and low, which contains all of that and the pipeline's fill and drain.
    gpu: of the catalog. exposed: x, share of an iteration at the GPU's peak rate. goodput: from the second case on.
    Columns case, utilization, exposed_share, goodput.
    """
    kernels = catalog.item("efficiencies", gpu)
    mfu = catalog.item("models", _PUBLISHED_RUN).row("model_flops_utilization")
    u = kernels["matmul_fraction_fp8" if "matmul_fraction_fp8" in kernels else "matmul_fraction_bf16"]
    ends = {"high": mfu.high, "middle": mfu.value, "low": mfu.low}
    rows = [
        ("full utilization", 1.0, 0.0, 1.0),
        ("exposed communication", 1.0, exposed, goodput),
        ("measured products", u, exposed * u / (1 - exposed + exposed * u), goodput),
        *((f"MFU of {_PUBLISHED_RUN}, {end}", mfu_end, 0.0, goodput) for end, mfu_end in ends.items()),
    ]
    return pd.DataFrame(rows, columns=["case", "utilization", "exposed_share", "goodput"])


def training_runs(
    models: Mapping[str, Transformer],
    exposed: Mapping[str, float],
    goodput: float,
    machine: Sizing,
    law: ScalingLaw,
    gpu: str,
) -> pd.DataFrame:
    """`training_run` of each model in each case of `utilization_cases`, over its loss-optimal tokens by a law.

    A mixture counts as a dense model of the parameters that a token meets. Costs are low, middle and high by the
    catalog's bounds; a long life is cheap.

    Parameters
    ----------
    models, exposed
        Both by name; exposed shares of an iteration.
    goodput
        Share of the wall time that advances the job.
    machine, gpu
        The machine, and its GPU of the catalog.
    law
        Gives the tokens.

    Returns
    -------
    Columns model, case, parameters, tokens, text_passes (tokens over the public stock of text), utilization,
    exposed_share, goodput, time_days, lives (T over the useful life), energy_TWh, energy_usd, wear_usd, total_usd,
    total_low_usd, total_high_usd, cost_per_million_tokens_usd.
    """
    tables, stock = [], catalog.item("operation", "text")["public_stock"]
    for name, model in models.items():
        n = float(model.active_parameters)
        d = float(law.tokens(law.compute(n)))
        cases = utilization_cases(gpu, exposed[name], goodput)
        of_model = {"model": name, "case": cases.pop("case"), "parameters": n, "tokens": d, "text_passes": d / stock}
        tables.append(pd.DataFrame(of_model).join(cases))
    table = pd.concat(tables, ignore_index=True)
    shares = [table[name].to_numpy() for name in ("utilization", "exposed_share", "goodput")]
    prices = operating_prices(), operating_prices("low", "high"), operating_prices("high", "low")
    run, cheap, dear = (
        training_run(table.parameters.to_numpy(), table.tokens.to_numpy(), machine, price, *shares) for price in prices
    )
    return table.assign(
        time_days=run.time_s / day,
        lives=run.time_s / prices[0].useful_life,
        energy_TWh=run.energy_J / units.unit("TWh")[1],
        energy_usd=run.energy_usd,
        wear_usd=run.wear_usd,
        total_usd=run.total_usd,
        total_low_usd=cheap.total_usd,
        total_high_usd=dear.total_usd,
        cost_per_million_tokens_usd=run.token_usd * 1e6,
    )
