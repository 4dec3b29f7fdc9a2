"""Scaling laws: the loss-optimal model of a compute budget, its loss, and how deep and wide it should be.

Every published law for the optimum has the form N = N_0 (C / C_0)^a with D = C / (6 N): C compute [FLOP], N parameters,
D tokens, 6 = 2 FLOPs forward and 4 backward for a parameter and token. Kaplan et al. count parameters without
embeddings, Hoffmann et al. all of them. Coefficients and the ranges of the experiments are the catalog's; a result
outside of those ranges comes with a warning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.arguments import (
    Positive,
    PositiveArray,
    PositiveFlopRateArray,
    PositiveShareArray,
    Quantities,
    Range,
    checked,
)
from railcore.catalog.checks import one_of
from railcore.catalog.units import day, significant

SCALING_LAWS = ("Kaplan", "Hoffmann 1", "Hoffmann 2", "Hoffmann 3", "Hoffmann 3, rounded", "Besiroglu")
FLOPS_PER_PARAMETER_TOKEN = 6
_PARAMETRIC_COEFFICIENTS = ("E", "A", "B", "alpha", "beta")
_JOINT_COEFFICIENTS = ("N_c", "D_c", "alpha_N", "alpha_D")
_DEPTH_LAW = "Levine"
_UNBOUNDED = (0.0, np.inf)
_Flop = Annotated[Quantities, Range(0, above_0=True, example="1e25 FLOP")]
_Seconds = Annotated[Quantities, Range(0, above_0=True, example="30 days")]


@checked
@dataclass(frozen=True)
class ScalingLaw:
    """A law N = N_0 (C / C_0)^a for the loss-optimal size, with the ranges of its experiments.

    parameters_scale: N_0.
    compute_scale: C_0 [FLOP].
    exponent: a, between 0 and 1.
    parameters_range, tokens_range, compute_range: least and most of the models trained.
    loss_of: L(N, D) [nats per token] where the authors give one.

    Raises ValueError naming the argument that is out of range.
    """

    name: str
    source: str
    parameters_scale: Positive
    compute_scale: Positive
    exponent: Annotated[float, Range(0, 1, above_0=True)]
    parameters_range: tuple[float, float]
    tokens_range: tuple[float, float]
    compute_range: tuple[float, float]
    loss_of: Callable[[ArrayLike, ArrayLike], np.ndarray] | None = None

    @checked
    def parameters(self, compute: _Flop) -> np.ndarray:
        """Loss-optimal parameters of a compute budget [FLOP]: N = N_0 (C / C_0)^a."""
        return self.parameters_scale * (np.asarray(compute, float) / self.compute_scale) ** self.exponent

    @checked
    def tokens(self, compute: _Flop) -> np.ndarray:
        """Loss-optimal tokens of a compute budget [FLOP]: D = C / (6 N)."""
        return np.asarray(compute, float) / (FLOPS_PER_PARAMETER_TOKEN * self.parameters(compute))

    @checked
    def compute(self, parameters: PositiveArray) -> np.ndarray:
        """Compute for which a size is optimal [FLOP]: C = C_0 (N / N_0)^(1/a)."""
        return self.compute_scale * (np.asarray(parameters, float) / self.parameters_scale) ** (1 / self.exponent)

    @checked
    def loss(self, parameters: PositiveArray, tokens: PositiveArray) -> np.ndarray:
        """Loss of N parameters after D tokens [nats per token]. Raises ValueError where the law has none."""
        if self.loss_of is None:
            raise ValueError(f"law {self.name!r} gives no loss: take Kaplan, Hoffmann 3 or Besiroglu")
        return self.loss_of(parameters, tokens)

    @checked
    def training_time(
        self, parameters: PositiveArray, flops: PositiveFlopRateArray, utilization: PositiveShareArray = 1.0
    ) -> np.ndarray:
        """Training time for which a size is loss-optimal [s]: t = C(N) / (u F); flops F [FLOP/s], utilization u."""
        return self.compute(parameters) / (np.asarray(flops, float) * np.asarray(utilization, float))

    @checked
    def parameters_after(
        self, time: _Seconds, flops: PositiveFlopRateArray, utilization: PositiveShareArray = 1.0
    ) -> np.ndarray:
        """Loss-optimal parameters of a training time [s] on a machine: N(u F t)."""
        return self.parameters(np.asarray(time, float) * (np.asarray(flops, float) * np.asarray(utilization, float)))

    @checked
    def warnings(self, compute: _Flop) -> tuple[str, ...]:
        """A text if the optimum of `compute` [FLOP] lies outside the experiments, else none."""
        ranges = {
            "FLOP": (compute, self.compute_range),
            "parameters": (self.parameters(compute), self.parameters_range),
            "tokens": (self.tokens(compute), self.tokens_range),
        }
        return _extrapolated(self.name, ranges)


class Shape(NamedTuple):
    """Layers and hidden size, and a warning where the rule is extrapolated."""

    layers: np.ndarray
    hidden: np.ndarray
    warnings: tuple[str, ...]


def fit_power_law(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Scale k and exponent a of y = k x^a through a table by least squares of v = log k + a u, u = log x, v = log y.

    a = sum (u - mean u)(v - mean v) / sum (u - mean u)^2, log k = mean v - a mean u.
    """
    u, v = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    off = u - u.mean()
    exponent = (off * (v - v.mean())).sum() / (off * off).sum()
    return float(np.exp(v.mean() - exponent * u.mean())), float(exponent)


def parametric_loss(
    parameters: PositiveArray, tokens: PositiveArray, E: float, A: float, B: float, alpha: float, beta: float
) -> Any:
    """Loss of a model trained on tokens: L = E + A / N^alpha + B / D^beta.

    Parameters
    ----------
    parameters, tokens
        N and D.
    E, A, B, alpha, beta
        Coefficients of the fit.

    Returns
    -------
    L [nats per token].

    References
    ----------
    Hoffmann et al. 2022, Eq. (2).
    """
    return E + A / np.asarray(parameters, float) ** alpha + B / np.asarray(tokens, float) ** beta


def parametric_optimum(A: Positive, B: Positive, alpha: Positive, beta: Positive) -> tuple[float, float]:
    """The size of least `parametric_loss` under 6 N D = C: N = G (C / 6)^a.

    a = beta / (alpha + beta), G = (alpha A / (beta B))^(1 / (alpha + beta)).

    Parameters
    ----------
    A, B, alpha, beta
        Coefficients of `parametric_loss`.

    Returns
    -------
    G and a.

    References
    ----------
    Hoffmann et al. 2022, Eq. (4).
    """
    return (alpha * A / (beta * B)) ** (1 / (alpha + beta)), beta / (alpha + beta)


def joint_loss(
    parameters: PositiveArray, tokens: PositiveArray, N_c: Positive, D_c: Positive, alpha_N: Positive, alpha_D: Positive
) -> Any:
    """Loss of a model trained on tokens: L = ((N_c / N)^(alpha_N / alpha_D) + D_c / D)^alpha_D.

    Parameters
    ----------
    parameters, tokens
        N and D.
    N_c, D_c, alpha_N, alpha_D
        Coefficients of the fit.

    Returns
    -------
    L [nats per token].

    References
    ----------
    Kaplan et al. 2020, Eq. (1.5).
    """
    n, d = np.asarray(parameters, float), np.asarray(tokens, float)
    return ((N_c / n) ** (alpha_N / alpha_D) + D_c / d) ** alpha_D


@checked
def scaling_law(name: str, reading: str = "table") -> ScalingLaw:
    """A scaling law of the catalog: the loss-optimal model for a compute.

    Kaplan: N = N_e C_min^p with C = 2 C_min, training at the critical batch size. Hoffmann 1 and 2 print a table and an
    exponent: reading "table" is the least squares of Table 3 or A3 (`fit_power_law`), "printed" the exponent of Table 2
    through the size projected for Gopher's compute. Hoffmann 3, as fitted or as printed ("rounded"), and Besiroglu:
    `parametric_optimum`.

    name: one of SCALING_LAWS, such as "Hoffmann 2".
    reading: "table", "printed" or "rounded".

    Raises ValueError for another name or reading.

    Examples
    --------
    >>> import railcore as rc
    >>> law = rc.scaling_law("Hoffmann 2")
    >>> rc.show(float(law.parameters_after("365 days", "1 EFLOP/s", 0.4)), "parameters", 2)
    '290,000,000,000 parameters'
    """
    one_of("name", name, SCALING_LAWS)
    one_of("reading", reading, ("table", "printed"))
    item = catalog.item("scaling_laws", name)
    loss = None
    if "E" in item:
        start = float(FLOPS_PER_PARAMETER_TOKEN)
        scale, exponent = parametric_optimum(*(item[key] for key in _PARAMETRIC_COEFFICIENTS[1:]))
        loss = partial(parametric_loss, **{key: item[key] for key in _PARAMETRIC_COEFFICIENTS})
    elif "N_c" in item:
        start = item["compute_scale"] * item["compute_over_minimum"]
        scale, exponent = item["parameters_scale"], item["parameters_exponent"]
        loss = partial(joint_loss, **{key: item[key] for key in _JOINT_COEFFICIENTS})
    elif reading == "table":
        table, start = hoffmann_table(int(name.split()[-1])), 1.0
        scale, exponent = fit_power_law(table["compute_flop"], table["parameters"])
    else:
        start = item["anchor_compute"]
        scale, exponent = item["anchor_parameters"], item["parameters_exponent"]
    spans = {f"{kind}_range": _span(item, kind) for kind in ("parameters", "tokens", "compute")}
    return ScalingLaw(name, item.rows[0].source, scale, start, exponent, **spans, loss_of=loss)


def hoffmann_table(approach: int) -> pd.DataFrame:
    """Table 3 or A3 of Hoffmann et al. 2022 for approach 1, 2 or 3: parameters, compute_flop, tokens."""
    rows = [catalog.item("scaling_tables", name) for name in catalog.names("scaling_tables")]
    values = [(row["parameters"], row[f"compute_{approach}"], row[f"tokens_{approach}"]) for row in rows]
    return pd.DataFrame(values, columns=["parameters", "compute_flop", "tokens"])


def optimal_models(names: Sequence[str], days: ArrayLike, flops: float) -> pd.DataFrame:
    """Loss-optimal model of each law after each training time on a machine at full use.

    Parameters
    ----------
    names
        Of SCALING_LAWS.
    days
        Training times [days].
    flops
        Rate of the machine [FLOP/s].

    Returns
    -------
    Columns law, training_days, compute_flop, parameters, tokens, loss (NaN where the law has none), times_trained
    (parameters over the largest model of the law's experiments), warning.
    """
    tables = []
    for law in map(scaling_law, names):
        compute = np.asarray(days, float) * day * flops
        size, tokens = law.parameters(compute), law.tokens(compute)
        columns = {"training_days": days, "compute_flop": compute, "parameters": size, "tokens": tokens}
        loss = law.loss(size, tokens) if law.loss_of else np.nan
        warnings = ["; ".join(law.warnings(budget)) for budget in np.atleast_1d(compute)]
        columns |= {"loss": loss, "times_trained": size / law.parameters_range[1], "warning": warnings}
        tables.append(pd.DataFrame({"law": law.name, **columns}))
    return pd.concat(tables, ignore_index=True)


def optimal_training_times(names: Sequence[str], sizes: Sequence[float], flops: float) -> pd.DataFrame:
    """The rows of `optimal_models` at the training times for which each size [parameters] is optimal by each law."""
    tables = []
    for name in names:
        days = scaling_law(name).training_time(sizes, flops) / day
        tables.append(optimal_models([name], days, flops))
    return pd.concat(tables, ignore_index=True)


def depth_and_width(parameters: ArrayLike) -> Shape:
    """Layers L and hidden size d, both real, of N = 12 L d^2 parameters under log d = a + b L.

    With u = 2 b L the two are u + log u = log(b N / 6) - 2 a, which is Wright's omega function.
    Source of a and b: Levine et al. 2020, arXiv:2006.12467, Section 5.1.
    """
    item, n = catalog.item("scaling_laws", _DEPTH_LAW), np.asarray(parameters, float)
    from scipy.special import wrightomega  # half of what the module's import would take

    layers = wrightomega(np.log(item["b"] * n / 6) - 2 * item["a"]) / (2 * item["b"])
    ranges = {kind: (value, _span(item, kind)) for kind, value in (("parameters", n), ("layers", layers))}
    warnings = _extrapolated(_DEPTH_LAW, ranges)
    return Shape(layers, np.sqrt(n / (12 * layers)), warnings)


def parameters_at_depth(layers: ArrayLike) -> np.ndarray:
    """Parameters for which the rule has L layers: N = 12 L exp(2 (a + b L)), the inverse of `depth_and_width`."""
    item = catalog.item("scaling_laws", _DEPTH_LAW)
    depth = np.asarray(layers, float)
    return 12 * depth * np.exp(2 * (item["a"] + item["b"] * depth))


def whole_shape(parameters: ArrayLike, multiple: int = 256, layers: ArrayLike | None = None) -> Shape:
    """The rule's shape in whole layers and a width that `multiple` (heads, or a tile of the GPU) divides.

    layers: by default the rule's, to the nearest; the width is sqrt(N / (12 L)) down to a multiple, one at least.
    """
    rule = depth_and_width(parameters)
    whole = np.maximum(np.rint(rule.layers if layers is None else layers), 1)
    width = np.sqrt(np.asarray(parameters, float) / (12 * whole)) // multiple
    return Shape(whole, np.maximum(width, 1) * multiple, rule.warnings)


def _span(item: catalog.Item, kind: str) -> tuple[float, float]:
    return (item[f"{kind}_low"], item[f"{kind}_high"]) if f"{kind}_low" in item else _UNBOUNDED


def _extrapolated(name: str, ranges: Mapping[str, tuple[ArrayLike, tuple[float, float]]]) -> tuple[str, ...]:
    texts = []
    for what, (values, (least, most)) in ranges.items():
        low, high = significant(np.min(values)), significant(np.max(values))
        if low < least or high > most:
            ends = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
            texts.append(f"{ends} {what} (experiments: {least:.3g} to {most:.3g})")
    return (f"{name} extrapolated to {', '.join(texts)}",) if texts else ()
