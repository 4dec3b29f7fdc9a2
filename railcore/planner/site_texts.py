"""What a plan says of its site: the place, what limits it, by how much it moves the cost, and what that rests on."""

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from railcore import catalog
from railcore.catalog.units import convert, counted, number, show
from railcore.planner.result import Plan

if TYPE_CHECKING:
    from railcore.planner.power_places import PowerPlaces
    from railcore.siting.areas import Area

_LEAST_MOVE = 5e-5  # share of the cost below which a site does not move it


def site_sentences(plan: Plan) -> list[str]:
    """The plan's demand, place, what its electricity does to the cost and where was searched, in a line.

    None without a place.
    """
    site = plan.site
    if site is None or site.places is None:
        return []
    if site.places.split is None:
        text = _place(site.table.iloc[0], False)
    else:
        shares = "; ".join(_place(row, True) for _, row in site.chosen.iterrows())
        text = f"{counted(len(site.chosen), 'places')} share it: {shares}"
    others = ""
    if len(plan.site_costs) > 1 and plan.spec.operation.electricity is None:
        listed = (f"{row.place}, {_change(row.moved_share)}" for row in plan.site_costs.iloc[1:].itertuples())
        others = f" Next best: {'; '.join(listed)}."
    moved = f" {_moved(plan)}" if len(plan.site_costs) else ""
    share = plan.spec.site.flexible if plan.spec.site else 0.0
    gives = f" The datacenter gives way for {number(100 * share, 3)}% of a year's energy." if share else ""
    line = f"Site: needs {_needed(site)}: {text}.{gives}{moved}{others}"
    return [f"{line} Searched: places {_searched(site.places.area)}. Grid: {site.grid_name}."]


def _needed(site: "PowerPlaces") -> str:
    """The demand, and what the plan draws where that is less."""
    drawn = f" (the plan draws {show(site.drawn_w, 'W', 4)})" if site.drawn_w < site.demand_w else ""
    return f"{show(site.demand_w, 'W', 4)}{drawn}"


def _searched(area: "Area") -> str:
    """Where places were searched."""
    anywhere = area.near is None and not area.states and not area.authorities
    return ", ".join([*["in the whole country"] * anywhere, *area.words])


def _place(row: pd.Series, shares: bool) -> str:
    """A place with its state, authority, power and what limits that."""
    where = ", ".join(filter(None, (row["state"], row["authority"])))
    carries = f"carries {show(row['power_w'], 'W', 4)} and " if shares else ""
    return f"{row['name']} ({where}) {carries}has {show(row['available_w'], 'W', 3)} (limited by: {row['limit']})"


def _moved(plan: Plan) -> str:
    """What the price of electricity there does to the cost of the best network, in a sentence."""
    row = plan.site_costs.iloc[0]
    if plan.spec.operation.electricity is not None:
        return "It moves no cost: operation.electricity is given."
    if math.isnan(row["usd_per_J"]):
        return "Its price of electricity is not known: the catalog's is taken."
    usual = catalog.item("prices", "energy")["electricity_price"]
    prices = f"Its electricity, {_price(row['usd_per_J'])} against the catalog's {_price(usual)},"
    if not math.isfinite(row["moved_usd"]):
        return f"{prices} is all that is told of its cost: the training never ends."
    if abs(row["moved_share"]) < _LEAST_MOVE:
        return f"{prices} does not move the training cost."
    way = "raises" if row["moved_usd"] > 0 else "lowers"
    amount = f"{show(abs(row['moved_usd']), 'USD', 3)} ({number(100 * abs(row['moved_share']), 2)}%)"
    return f"{prices} {way} the training cost by {amount}."


def _price(usd_per_J: float) -> str:
    return "unknown" if math.isnan(usd_per_J) else f"{number(float(convert(usd_per_J, 'USD/kWh')), 3)} USD/kWh"


def _change(share: float) -> str:
    """A change in percent with its sign."""
    return f"{_sign(share)}{number(100 * abs(share), 2)}%" if math.isfinite(share) else "unknown"


def _sign(change: float) -> str:
    return "+" if change > 0 else "-" if change < 0 else ""


def site_cost_columns(plan: Plan) -> dict[str, list[str]]:
    """`Plan.site_costs` as columns of texts; none where the spec gives the price."""
    table = plan.site_costs
    if table.empty or plan.spec.operation.electricity is not None:
        return {}
    return {
        "place": list(table["place"]),
        "electricity": [_price(price) for price in table["usd_per_J"]],
        "training cost": [show(usd, "USD", 4) for usd in table["cost_usd"]],
        "against no site": [
            f"{_sign(row.moved_usd)}{show(abs(row.moved_usd), 'USD', 3)} ({_change(row.moved_share)})"
            for row in table.itertuples()
        ],
    }


def place_points(site: "PowerPlaces") -> dict[str, Any] | None:
    """Places for the map, with the grid's name in its caption; None where there is but one."""
    shares = site.places is not None and site.places.split is not None
    points = [
        {"label": str(row["name"]), **{axis: float(row[axis]) for axis in ("latitude", "longitude")}}
        | {"text": f"carries {show(row['power_w'], 'W', 4)}" if shares else f"has {show(row['available_w'], 'W', 3)}"}
        for _, row in site.table.iterrows()
    ]
    what = "Places that share the power" if shares else "Places that have the power alone, the best first"
    return {"caption": f"{what}. Grid: {site.grid_name}", "points": points} if len(points) > 1 else None


def site_risk(plan: Plan) -> str:
    """What the place rests on; "" without one."""
    if plan.site is None or plan.site.places is None:
        return ""
    where = _where(plan.site.chosen)
    return f"Site: {where}: computed, no utility was asked. Grid: {plan.site.grid_name}."


def _where(places: pd.DataFrame) -> str:
    """The name of a place, or how many there are."""
    return str(places["name"].iloc[0]) if len(places) == 1 else counted(len(places), "places")


def site_step(plan: Plan) -> str:
    """What to do next about the site."""
    if plan.site is None or plan.best is None:
        power = f"{show(plan.best.numbers['power_w'], 'W', 3)} must be free somewhere" if plan.best else "power"
        return f"Give [site]: {power}."
    if plan.site.places is None:
        return "Change [site]: another area, a larger radius, or places = 2 to split the power."
    asked = (
        f"{code or 'the utility'} for {show(places['power_w'].sum(), 'W', 3)} at {_where(places)}"
        for code, places in plan.site.chosen.groupby("authority", sort=False)
    )
    return f"Ask {' and '.join(asked)}."
