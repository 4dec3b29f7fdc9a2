"""What a siting adds to training: delay and capacity between its places, and the time of an iteration.

Places are joined by fibre between every two, as long as the longest of them; racks are shared as evenly as the powers
of the places allow, for the model of `datacenter` sums gradients over datacenters at one pace. Symbols as in
`datacenter.exposed`: F, B forward and backward pass, x3 the exchange between datacenters, y racks that hold a layer in
a datacenter, k places, c wide-area capacity of a GPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.systems.datacenter.batches import tokens
from railcore.systems.datacenter.exposed import WIDE_AREA, Times
from railcore.systems.datacenter.layer import Layer, precision
from railcore.systems.datacenter.layout import Layout
from railcore.systems.datacenter.scenario import Case, least_wan_Bps
from railcore.systems.datacenter.site import Site, site
from railcore.systems.siting.geometry import Located, between_m, delays_s, feeds, indices
from railcore.training.collectives import algorithms
from railcore.training.transformer import Transformer, from_catalog

if TYPE_CHECKING:
    import pandas as pd


def cases(
    models: Iterable[str | Transformer],
    racks: int,
    document: str = "",
    rate: str = "bf16_dense_rate",
    bytes_of: str = "bf16",
    rule: str = "each network",
    options: Mapping[str, Any] | None = None,
    **machine: Any,
) -> dict[str, Case]:
    """Models, of the catalog or of your own, on the same racks, by name.

    document, rate, machine: as in `datacenter.site`, such as wan_Bps. bytes_of: of the catalog's precisions. rule,
    options: as in `Case`. Raises UnknownName for a model, rate or precision that the catalog lacks.
    """
    box, bytes_ = site(racks, document=document, rate=rate, **machine), precision(bytes_of)
    every = [model if isinstance(model, Transformer) else from_catalog(model) for model in models]
    return {model.name: Case(model, bytes_, box, dict(options or {}), rule) for model in every}


def joined(
    cases: Mapping[str, Case],
    datacenters: ArrayLike,
    one_way_delay_s: ArrayLike,
    wan_Bps: ArrayLike | None = None,
    shared: Sequence[Sequence[float]] | None = None,
    micro_batches: int = 1,
    route_factor: float = 0.0,
) -> "pd.DataFrame":
    """Every case in so many datacenters, so far apart, at a wide-area capacity of a GPU: one row each, in one call.

    datacenters, one_way_delay_s, wan_Bps (by default the case's): arrays that broadcast. shared: share of the racks of
    every place of each row, even by default: a place holds a layer on y = floor(share x racks / L) racks; x3 waits for
    the place with the fewest, the scale-out network for the one with the most. micro_batches m: of an iteration.

    Columns model, datacenters, one_way_delay_s, wan_Bps; racks_per_layer (of all places); exposed_share; wide_area_s:
    x3; unhidden_s: (x3 - B)+; time_s: of a layer in steady state, m (F + B) + what is exposed; iteration_s: of the
    whole, filled and drained, as `batches.iteration`; tokens of that; slowdown: time_s / tokens over that of
    one datacenter with all the racks; least_wan_Bps: of a GPU, at which B hides x3, infinite where delay alone is
    longer, and least_site_Bps, fibre_pairs: of all GPUs of a place; hidden_m: greatest distance at which B
    hides x3 at wan_Bps, infinite for one place, NaN where no distance is. All NaN where a place holds no replica.
    Source: flops2024, sections 4.1 and 6, Fig. 3c; unequal shares are ours.
    """
    import pandas as pd

    parts = []
    for name, case in cases.items():
        capacity = case.site.wan_Bps if wan_Bps is None else wan_Bps
        k, delay, c = (np.ravel(each) for each in np.broadcast_arrays(datacenters, one_way_delay_s, capacity))
        even = case.changed(site={"datacenters": k, "one_way_delay_s": np.where(k > 1, delay, 0.0), "wan_Bps": c})
        keys = {"model": name, "datacenters": k, "one_way_delay_s": even.site.one_way_delay_s, "wan_Bps": c}
        parts.append(pd.DataFrame(keys | _row(even, _racks(case, k, shared), micro_batches, route_factor)))
    return pd.concat(parts, ignore_index=True)


def _racks(case: Case, k: np.ndarray, shared: Sequence[Sequence[float]] | None) -> tuple[np.ndarray, ...]:
    """Racks that hold a layer in the smallest and in the largest place and in all, shape (rows,)."""
    depth = np.ceil(case.layer.layers)
    rows = [np.full(int(count), 1 / count) for count in k] if shared is None else [np.asarray(row) for row in shared]
    if [len(row) for row in rows] != list(k):
        raise ValueError(f"shared has {[len(row) for row in rows]} places: give one share for each of {list(k)}")
    held = [np.floor(row * case.site.racks / depth * (1 + 1e-12)) for row in rows]
    return tuple(np.array([of(row) for row in held]) for of in (np.min, np.max, np.sum))


def _times(case: Case, y: np.ndarray) -> tuple[Layout, Times]:
    racks = np.fmax(y, 1) * np.ceil(case.layer.layers) * case.site.datacenters  # with none, as if there were one
    here = case.changed(site={"racks": racks})
    return here.layout, here.times


def _row(case: Case, racks: tuple[np.ndarray, ...], m: int, route_factor: float) -> dict[str, Any]:
    least, most, every = racks
    (laid, t), (_, largest) = _times(case, least), _times(case, most)
    x = t.steps_s
    t = replace(t, steps_s=(x[0], largest.steps_s[1], x[2], largest.steps_s[3], x[4]))
    exposed_s = t.exposed_s(case.rule, m)
    time_s = m * (t.forward_s + t.backward_s) + exposed_s
    done = m * tokens(case.layer, laid) * every / (laid.racks_per_layer_here * laid.datacenters)
    needed = least_wan_Bps(case.layer, laid, case.site, t.backward_s)
    hidden_s = hidden_delay_s(case.layer, laid, case.site, t.backward_s)
    columns = {
        "racks_per_layer": every,
        "exposed_share": t.share(case.rule, m),
        "wide_area_s": t.steps_s[2],
        "unhidden_s": np.maximum(t.steps_s[2] - t.backward_s, 0),
        "time_s": time_s,
        "iteration_s": time_s + (laid.layers - 1) * (t.forward_s + t.backward_s + 2 * t.waits_s),
        "tokens": done,
        "slowdown": time_s / done / _alone(case, m),
        "least_wan_Bps": needed,
        "least_site_Bps": needed * laid.gpus_here,
        "fibre_pairs": np.ceil(needed * laid.gpus_here / catalog.item("wide_area", "fibre pair")["capacity"]),
        "hidden_m": hidden_s / delays_s(1.0, route_factor)["middle"],
    }
    return {name: np.where(least >= 1, value, np.nan) for name, value in columns.items()}


def _alone(case: Case, m: int) -> float:
    """Time of a token of a layer in one datacenter with all the racks [s]."""
    one = case.changed(site={"datacenters": 1, "one_way_delay_s": 0.0, "wan_Bps": 1.0})
    t = one.times
    return float((m * (t.forward_s + t.backward_s) + t.exposed_s(one.rule, m)) / (m * tokens(one.layer, one.layout)))


def hidden_delay_s(layer: Layer, laid: Layout, site: Site, hidden_s: Any) -> Any:
    """Longest one-way delay at which step 3 takes no longer than hidden_s [s], in closed form.

    Largest over the forms of the exchange of (hidden_s - bytes / c) / (steps + 2 lost round trips); infinite for
    one datacenter, NaN where the bytes alone take longer. The inverse of `exposed.wide_area`, as `least_wan_Bps` is.
    """
    chunk = layer.gradient_bytes / (laid.tensor * laid.layers_per_rack * laid.racks_per_layer_here)
    k = np.asarray(site.datacenters)
    allowed = []
    for form in WIDE_AREA:
        steps, size = algorithms.steps_and_bytes("all_reduce", form, chunk, k)
        rounds = np.maximum(steps + 2 * np.asarray(site.tail_loss_rtts), 1)
        allowed.append((hidden_s - size / site.wan_Bps) / rounds)
    most = np.maximum(*allowed)
    return np.where(k > 1, np.where(most >= 0, most, np.nan), np.inf)[()]


def compared(
    cases: Mapping[str, Case],
    places: Located,
    power_w: ArrayLike,
    sitings: Mapping[str, Sequence[int]],
    demand_w: float,
    wan_Bps: float | None = None,
    route_factor: float = 0.0,
    micro_batches: int = 1,
    tolerance: float = 1e-9,
) -> "pd.DataFrame":
    """Sitings by what they add to training, and which is best: a row for each siting and model.

    power_w: what a rule lets each of the places have [W], capped where places are. sitings: by name, which of them
    (`split.Split.places`); caps of authorities are not counted when the demand is shared.
    demand_w: of all racks together. wan_Bps, route_factor, micro_batches: as in `joined`.
    Columns siting, meets (powers sum to the demand), power_w, spare_w (over the demand), least_share (of
    `places.shares`; 1 / k where powers allow an even split), longest_m, delay_low_s and delay_high_s (of the route
    factor's bounds),
    those of `joined`, best (most spare power of the sitings that meet the demand and are within the tolerance, a
    share, of the least slowdown), pareto (no other is ahead in spare power or slowdown and not behind in the other).
    Training columns are NaN where the demand is not met. Errors as in `indices`.

    Slowdown differs by about a percent from what the wide area does not cause: whole racks for each layer, and rings
    of fewer racks where a datacenter is smaller.
    """
    import pandas as pd

    power, rows = np.asarray(power_w, float), []
    for name, at in indices(places, power, sitings).items():
        total, far = float(power[at].sum()), between_m(places.latitude[at], places.longitude[at]).max()
        delay = delays_s(far, route_factor)
        fed = feeds(power[at], demand_w)
        rows.append(
            {
                "siting": name,
                "meets": total >= demand_w,
                "power_w": total,
                "spare_w": total - demand_w,
                "least_share": fed.min(),
                "longest_m": float(far),
                "delay_low_s": float(delay["low"]),
                "delay_high_s": float(delay["high"]),
                "one_way_delay_s": float(delay["middle"]),
                "shared": fed,
            }
        )
    table = pd.DataFrame(rows)
    k = [len(fed) for fed in table["shared"]]
    added = joined(cases, k, table["one_way_delay_s"], wan_Bps, list(table["shared"]), micro_batches, route_factor)
    whole = pd.concat([table.drop(columns=["shared", "one_way_delay_s"])] * len(cases), ignore_index=True)
    whole = pd.concat([whole, added], axis=1)
    marks = [_marks(of_one, tolerance) for _, of_one in whole.groupby("model", sort=False)]
    return whole.join(pd.concat(marks))


def _marks(table: "pd.DataFrame", tolerance: float) -> "pd.DataFrame":
    """Columns best and pareto of the sitings of one model."""
    fits = table[table["meets"] & table["slowdown"].notna()]
    spare, slow = fits["spare_w"].to_numpy(), fits["slowdown"].round(9).to_numpy()
    more, slower = spare[:, None] - spare, slow[:, None] - slow  # of the row against the column
    beaten = ((more >= 0) & (slower <= 0) & ((more > 0) | (slower < 0))).any(axis=0)
    fast = slow <= slow.min(initial=np.inf) * (1 + tolerance)
    best = fits.index[np.argsort(np.where(fast, -spare, np.inf), kind="stable")[:1]]
    return table.assign(best=table.index.isin(best), pareto=table.index.isin(fits.index[~beaten]))[["best", "pareto"]]
