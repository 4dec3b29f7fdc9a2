"""What a machine is used for: the model that a budget trains on it, what training runs cost, and serving.

The model is loss-optimal for its time, or the largest that the racks hold. A training run costs time, energy and wear:
T = 6 N D / (F u (1 - x) G) with N parameters that a token meets, D tokens, F peak rate of the machine, u utilization, x
exposed share, G goodput.
A copy that serves is p stages, each a rack of t GPUs; p batches of b sequences are in flight, one on each stage, so
that a stage keeps b caches of the whole model. Symbols: W bytes of weights, K bytes of the cache of a sequence, L
layers, h hidden, c tokens of context, B bandwidth of a GPU's memory, R its rate, e bytes of an activation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import checks, units
from railcore.catalog.arguments import NonNegativeArray, checked
from railcore.catalog.units import day, show
from railcore.datacenter.exposed import layer_times
from railcore.datacenter.layouts import Layer, model_layer, rack_layout
from railcore.datacenter.sizing import DatacenterSite, Sizing, datacenter_site, datacenter_size, narrowest_format
from railcore.training.formats import Precision, catalog_precision
from railcore.training.scaling_laws import FLOPS_PER_PARAMETER_TOKEN, ScalingLaw, scaling_law, whole_shape
from railcore.training.transformer import Transformer

CANDIDATE_PARAMETERS = np.geomspace(1e9, 1e18, 900)  # among which the largest that fits is found, 2.3% apart
_PUBLISHED_RUN = "Llama-3 405B"  # of the catalog's models, with a measured MFU


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
    "time", or what of the loss-optimal model does not fit.
    """
    tables, found = [], scaling_law(law_name)
    budget = np.asarray(budgets_usd, float)
    for platform in platforms:
        number_format = narrowest_format(catalog.item("platforms", platform)["gpu"])
        bytes_of = catalog_precision(precision_for_format(number_format))
        bought = datacenter_size(budget, platform, price_book)
        racks = bought.racks.astype(int)
        machine = datacenter_site(racks, platform, f"{number_format}_dense_rate", catalog_site)
        optimal = found.parameters_after(days * day, bought.dense_flops)
        wanted, largest = layer_of_size(like, bytes_of, optimal), largest_parameters(like, bytes_of, machine)
        fits = rack_layout(wanted, machine, strict=False).tensor > 0
        trained = np.where(fits, optimal, np.minimum(optimal, largest))
        each = layer_of_size(like, bytes_of, np.maximum(trained, CANDIDATE_PARAMETERS[0]))
        laid = rack_layout(each, machine, strict=False)
        share = layer_times(each, laid, machine).share()
        needed = found.training_time(trained, bought.dense_flops * (1 - np.nan_to_num(share))) / day
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
            "layers": each.layers.astype(int),
            "hidden": each.hidden.astype(int),
            "tensor_degree": laid.tensor.astype(int),
            "replicas": laid.replicas_here * machine.datacenters,
            "exposed_share": share,
            "time_days": np.where(laid.tensor > 0, needed, np.nan),
            "limit": np.where(fits, "time", _limits(wanted, machine)),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def precision_for_format(number_format: str) -> str:
    """The catalog's first precision whose products are in a number format. Raises ValueError for another."""
    for name in catalog.names("precisions"):
        if catalog.item("precisions", name)["rate_format"] == number_format:
            return name
    raise ValueError(f"number_format is {number_format!r}: give a rate_format of the catalog's precisions")


def layer_of_size(like: Transformer, bytes_of: Precision, parameters: np.ndarray) -> Layer:
    """The layer of models of so many parameters in the shape of the depth-to-width rule."""
    shape = whole_shape(parameters, like.heads)
    return model_layer(like, bytes_of, 1, shape.layers, shape.hidden)


def largest_parameters(like: Transformer, bytes_of: Precision, machine: DatacenterSite) -> np.ndarray:
    """Parameters of the largest of SIZES, in the shape of the depth-to-width rule, that racks hold; 0 for none.

    machine: its racks may be an array, the result has its shape.
    """
    racks = np.asarray(machine.racks)[..., None]
    tried = layer_of_size(like, bytes_of, CANDIDATE_PARAMETERS)
    fits = rack_layout(tried, replace(machine, racks=racks), strict=False).tensor > 0
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

    electricity_price [USD/J];
    useful_life: over which the whole budget wears out in equal parts [s].
    mean_load: power drawn over rated power.
    Raises ValueError naming the argument that is out of range.
    """

    electricity_price: Any
    useful_life: Any
    mean_load: Any = 1.0

    def __post_init__(self) -> None:
        checks.at_least("electricity_price", self.electricity_price)
        checks.positive("useful_life", self.useful_life, "s")
        checks.share("mean_load", self.mean_load, above_0=True)

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
    wear_usd: budget x T / useful life, more than the budget where T is longer than that life.
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

    @checked
    def carbon_kg(self, intensity: NonNegativeArray) -> Any:
        """Carbon dioxide of the energy [kg]: energy x carbon intensity of the power [kg/J]."""
        return self.energy_J * checks.at_least("intensity", intensity)


def operating_prices(bound: str = "value", wear: str = "value") -> OperatingPrices:
    """Prices of the catalog. bound: "value", "low" or "high" of electricity and load; wear: of the useful life."""
    energy, machine = catalog.item("prices", "energy"), catalog.item("operation", "machine")
    for name, value in (("bound", bound), ("wear", wear)):
        checks.one_of(name, value, ("low", "value", "high"))
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
        What the run takes, and what its time costs.
    utilization
        u, of the time that GPUs compute; a measured MFU has the exposed communication in it: x is 0 then.
    exposed
        x, share of an iteration.
    goodput
        G, share of the wall time that advances the job.

    Returns
    -------
    A `TrainingRun`.

    Raises
    ------
    ValueError
        Naming the argument that is out of range.
    """
    u, g = checks.share("utilization", utilization, above_0=True), checks.share("goodput", goodput, above_0=True)
    x = checks.share("exposed", exposed, below_1=True)
    n, d = checks.positive("parameters", parameters), checks.positive("tokens", tokens)
    flops = FLOPS_PER_PARAMETER_TOKEN * n * d
    return run_of_time(d, flops, flops / (machine.dense_flops * u * (1 - x) * g), machine, costs)


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
        What the run takes, and what its time costs.

    Returns
    -------
    A `TrainingRun`.
    """
    time = checks.positive("time_s", time_s, "seconds")[()]
    energy_rate, wear_rate = costs.per_second(machine)
    drawn = machine.total_w * costs.mean_load * time
    return TrainingRun(tokens, flops, time, drawn, energy_rate * time, wear_rate * time)


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
        c, share of time that is added: modelled times are those of benchmarks.

    Returns
    -------
    Seconds.
    """
    iterations = checks.positive("tokens", tokens) / checks.positive("batch_tokens", batch_tokens)
    held = checks.share("goodput", goodput, above_0=True)
    extra = 1 + checks.at_least("contingency", contingency)
    return (iterations * np.asarray(iteration_s, float) * extra / held)[()]


def utilization_cases(gpu: str, exposed: float, goodput: float) -> pd.DataFrame:
    """Arguments of `training_run` from the ideal to what has been measured.

    Full utilization; exposed communication; the GPU's fastest measured products on top, where the same seconds of
    communication are the smaller share x u / (1 - x + x u); and the MFU of a published run at its high, middle and
    low, which contains all of that and the pipeline's fill and drain.
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

    A mixture is taken as a dense model of the parameters that a token meets. Costs are low, middle and high by the
    catalog's bounds, a long life being cheap.

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
        cases = utilization_cases(gpu, exposed[checks.one_of("exposed", name, exposed)], goodput)
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
