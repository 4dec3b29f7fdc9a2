"""What a siting costs in training: delay and capacity between its places, and the iteration time.

Fibre joins every two places, each link as long as that between the two farthest. Racks are shared as evenly as the
powers of the places allow, for the model of `datacenter` sums gradients over datacenters at one pace. Symbols as in
`datacenter.exposed`: F, B forward and backward pass, x3 the exchange between datacenters, y racks that hold a layer in
a datacenter, k places, c wide-area capacity of a GPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.datacenter import exposed
from railcore.datacenter.layouts import Layer, Layout
from railcore.datacenter.sizing import DatacenterSite
from railcore.siting.distances import Located, diameter_m, fibre_delays_s
from railcore.siting.rules import AvailablePower
from railcore.training.formats import catalog_precision
from railcore.training.transformer import Transformer, catalog_model
from suite.flops2024.sitings import Sitings, demand_shares
from suite.flops2024.training_case import TrainingCase, tokens_per_micro_batch


def training_cases(
    models: Iterable[str | Transformer],
    machine: DatacenterSite,
    bytes_of: str = "bf16",
    options: Mapping[str, Any] = {},
) -> dict[str, TrainingCase]:
    """Models on the same machine, by name.

    Parameters
    ----------
    models
        Of the catalog, or your own.
    machine
        All racks of all datacenters, of `datacenter_site`.
    bytes_of
        One of the catalog's precisions.
    options
        As in `TrainingCase`.

    Returns
    -------
    `TrainingCase` by name of the model.
    """
    every = [model if isinstance(model, Transformer) else catalog_model(model) for model in models]
    return {model.name: TrainingCase(model, catalog_precision(bytes_of), machine, options) for model in every}


def multisite_times(
    cases: Mapping[str, TrainingCase],
    one_way_delay_s: ArrayLike,
    rack_shares: Sequence[np.ndarray],
) -> pd.DataFrame:
    """Times of every case in k places with a delay between them.

    A place holds a layer on y = floor(share x racks / L) racks. The place with the fewest racks sets x3, the one with
    the most the scale-out network's steps.

    Parameters
    ----------
    cases
        Models on machines, by name.
    one_way_delay_s
        Delay between two places [s], for each row.
    rack_shares
        Share of the racks of every place, k of them, for each row.

    Returns
    -------
    Columns model, datacenters (k), one_way_delay_s, wan_Bps; racks_per_layer (of all places); exposed_share;
    wide_area_s: x3; unhidden_s: (x3 - B)+; time_s: of a layer in steady state with one micro-batch, F + B + what is
    exposed; iteration_s: of the whole, filled and drained, as `training_case.pipelined_iteration`; tokens of that;
    slowdown: time_s / tokens over that of one datacenter with all the racks; least_wan_Bps: of a GPU, at which B hides
    x3, infinite where delay alone is longer, and least_site_Bps, fibre_pairs: of all GPUs of a place; hidden_m:
    greatest distance at which B hides x3 at wan_Bps, infinite for one place, NaN where no distance is. All NaN where a
    place holds no replica.

    References
    ----------
    flops2024, sections 4.1 and 6, Fig. 3c; unequal shares are ours.
    """
    k, parts = np.array([len(row) for row in rack_shares]), []
    delay = np.where(k > 1, one_way_delay_s, 0.0)
    for name, case in cases.items():
        even = case.changed(site={"datacenters": k, "one_way_delay_s": delay})
        keys = {"model": name, "datacenters": k, "one_way_delay_s": delay, "wan_Bps": case.site.wan_Bps}
        parts.append(pd.DataFrame(keys | _times(even, _racks_per_layer(case, rack_shares))))
    return pd.concat(parts, ignore_index=True)


def _racks_per_layer(case: TrainingCase, rack_shares: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Racks that hold a layer in the smallest and in the largest place and in all, shape (rows,)."""
    held = [np.floor(row * case.site.racks / np.ceil(case.layer.layers) * (1 + 1e-12)) for row in rack_shares]
    return tuple(np.array([of(row) for row in held]) for of in (np.min, np.max, np.sum))


def _with_racks(case: TrainingCase, y: np.ndarray) -> tuple[Layout, exposed.LayerTimes]:
    """Layout and times where every place holds a layer on y racks; with none, as if there were one."""
    racks = np.fmax(y, 1) * np.ceil(case.layer.layers) * case.site.datacenters
    here = case.changed(site={"racks": racks})
    return here.layout, here.times


def _times(case: TrainingCase, racks: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """Computed columns of `multisite_times`."""
    least, most, every = racks
    (laid, t), (_, largest) = _with_racks(case, least), _with_racks(case, most)
    x = t.steps_s
    t = replace(t, steps_s=(x[0], largest.steps_s[1], x[2], largest.steps_s[3], x[4]))
    time_s = t.steady_s(case.rule)
    done = tokens_per_micro_batch(case.layer, laid) * every / (laid.racks_per_layer_here * laid.datacenters)
    needed = exposed.least_wan_Bps(case.layer, laid, case.site, t.backward_s)
    hidden_s = longest_hidden_delay_s(case.layer, laid, case.site, t.backward_s)
    columns = {
        "racks_per_layer": every,
        "exposed_share": t.share(case.rule),
        "wide_area_s": t.steps_s[2],
        "unhidden_s": np.maximum(t.steps_s[2] - t.backward_s, 0),
        "time_s": time_s,
        "iteration_s": time_s + (laid.layers - 1) * (t.forward_s + t.backward_s + 2 * t.waits_s),
        "tokens": done,
        "slowdown": time_s / np.where(done > 0, done, np.nan) / _seconds_per_token_alone(case),
        "least_wan_Bps": needed,
        "least_site_Bps": needed * laid.gpus_here,
        "fibre_pairs": np.ceil(needed * laid.gpus_here / catalog.item("wide_area", "fibre pair")["capacity"]),
        "hidden_m": hidden_s / fibre_delays_s(1.0)["middle"],
    }
    return {name: np.where(least >= 1, value, np.nan) for name, value in columns.items()}


def _seconds_per_token_alone(case: TrainingCase) -> float:
    """Time of a token of a layer in one datacenter with all the racks [s], NaN where they hold no replica."""
    if case.site.racks < np.ceil(case.layer.layers):
        return np.nan
    one = case.changed(site={"datacenters": 1, "one_way_delay_s": 0.0, "wan_Bps": 1.0})
    return float(one.times.steady_s(one.rule) / tokens_per_micro_batch(one.layer, one.layout))


def longest_hidden_delay_s(layer: Layer, laid: Layout, site: DatacenterSite, hidden_s: Any) -> Any:
    """Longest one-way delay at which step 3 takes no longer than hidden_s, in closed form.

    Largest over `exposed.wan_delays_and_bytes` of (hidden_s - bytes / c) / delays. The inverse of
    `exposed.wide_area_exchange`, as `least_wan_Bps` is.

    Parameters
    ----------
    layer, laid, site
        As in `exposed.layer_times`.
    hidden_s
        What step 3 may take [s].

    Returns
    -------
    Delay [s], infinite for one datacenter, NaN where the bytes alone take longer.
    """
    k = np.asarray(site.datacenters)
    allowed = []
    for delays, size in exposed.wan_delays_and_bytes(exposed.wan_gradient_bytes(layer, laid), site):
        allowed.append((hidden_s - size / site.wan_Bps) / np.maximum(delays, 1))
    most = np.maximum(*allowed)
    return np.where(k > 1, np.where(most >= 0, most, np.nan), np.inf)[()]


def training_by_siting(
    cases: Mapping[str, TrainingCase],
    places: Located,
    power_w: ArrayLike,
    sitings: Sitings,
    demand_w: float,
    tolerance: float = 1e-9,
    capped: AvailablePower | None = None,
) -> pd.DataFrame:
    """Sitings by what they add to training, and which is best.

    Slowdown differs by about a percent from what the wide area does not cause: whole racks for each layer, and rings
    of fewer racks where a datacenter is smaller.

    Parameters
    ----------
    cases
        Models on machines whose racks together draw the demand, by name.
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What a rule lets each place have, capped where places are, and what all together draw [W].
    tolerance
        Share of the least slowdown within which sitings count as equally fast.
    capped
        The same power with the caps of authorities, which places share; without it they have none. Caps are not counted
        when the demand is shared.

    Returns
    -------
    A row for each siting and model: siting, meets (powers sum to the demand), power_w, spare_w (over the demand),
    least_share (of `sitings.even_shares`; 1 / k where powers allow an even split), longest_m, delay_low_s and
    delay_high_s (of the route factor's bounds), those of `multisite_times`, best (most spare power of the sitings that
    meet the demand and are within the tolerance of the least slowdown), pareto (no other is ahead in spare power or
    slowdown and not behind in the other). Columns of training are NaN where the demand is not met.
    """
    power, rows, rack_shares = np.asarray(power_w, float), [], []
    for name, (at, shares) in demand_shares(places, sitings, power, demand_w).items():
        total = float(power[at].sum()) if capped is None else capped.together_w(at)
        rack_shares.append(shares)
        rows.append((name, total >= demand_w, total, total - demand_w, shares.min(), diameter_m(places, at)))
    table = pd.DataFrame(rows, columns="siting meets power_w spare_w least_share longest_m".split())
    delay = fibre_delays_s(table["longest_m"])
    table = table.assign(delay_low_s=delay["low"], delay_high_s=delay["high"])
    added = multisite_times(cases, delay["middle"], rack_shares)
    whole = pd.concat([pd.concat([table] * len(cases), ignore_index=True), added], axis=1)
    marks = [_best_and_pareto(of_one, tolerance) for _, of_one in whole.groupby("model", sort=False)]
    return whole.join(pd.concat(marks))


def _best_and_pareto(table: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """Columns best and pareto of the sitings of one model."""
    fits = table[table["meets"] & table["slowdown"].notna()]
    spare, slow = fits["spare_w"].round(3).to_numpy(), fits["slowdown"].round(9).to_numpy()
    more, slower = spare[:, None] - spare, slow[:, None] - slow  # of the row against the column
    beaten = ((more >= 0) & (slower <= 0) & ((more > 0) | (slower < 0))).any(axis=0)
    fast = slow <= slow.min(initial=np.inf) * (1 + tolerance)
    best = fits.index[np.argsort(np.where(fast, -spare, np.inf), kind="stable")[:1]]
    return table.assign(best=table.index.isin(best), pareto=table.index.isin(fits.index[~beaten]))[["best", "pareto"]]
