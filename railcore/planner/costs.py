"""What a plan says of its cost: items of ownership of the best network, and published rents beside them."""

import math

import pandas as pd

from railcore import catalog
from railcore.catalog.units import convert, day, hour, number, show, words, year
from railcore.datacenter.ownership import ADDED, cost_rates, item_keys
from railcore.planner.answer import Answer, EnergyPrices, with_energy
from railcore.planner.case import Case
from railcore.planner.evidence import rows_of, source_text
from railcore.planner.price_basis import basis_keys, basis_text
from railcore.planner.shown_numbers import interval, shown
from railcore.planner.spec import SIDE_NETWORKS

_RENTS = {"on_demand": "on demand", "reserved": "reserved"}


def boundary(case: Case) -> str:
    """What is counted and what is not, in the purchase and over time."""
    included = case.spec.cluster.include
    counted = ["servers with their NICs", "switches", "optics at both ends"]
    counted += [f"the {name} network" for name in included]
    left_out = [f"the {name} network" for name in SIDE_NETWORKS if name not in included]
    left_out += ["fibre", "storage machines", "land", "taxes", "people who write the software"]
    left_out += [item for item in ADDED if item in case.left_out]
    over_time = ["wear", "electricity", *(item for item in ADDED if item not in case.left_out)]
    texts = [f"Counted: {', '.join(counted)}", f"The training also pays for {', '.join(over_time)}"]
    return f"{'. '.join(texts)}. Not counted: {', '.join(left_out)}."


def server_price(case: Case) -> str:
    """Whose price the servers have, and what is counted in its place."""
    books = case.spec.books
    if books.server is None:
        return basis_text(case.rack, books.basis)
    return f"{case.rack.name}: price given in the spec, {show(books.server, 'USD', 4)}."


def cost_text(case: Case, answer: Answer) -> str:
    """Cost of a GPU-hour beside published rents."""
    return f"{shown('gpu_hour_usd', answer.numbers['gpu_hour_usd'], 3)} a GPU-hour; {rents_text(case.machine.gpu)}"


def ownership_table(case: Case, answer: Answer, site_usd_per_J: float | None = None) -> pd.DataFrame:
    """Cost of a network by item that is counted.

    Columns item, usd_per_year (of training around the clock), usd_per_gpu_hour (of GPUs that are bought), training_usd
    (NaN without a strategy), share, source.
    """
    if answer.sizing is None:
        return pd.DataFrame()
    rates = cost_rates(answer.sizing, case.operating_prices({}, site_usd_per_J), case.ownership({}))
    counted = {item: float(rate) for item, rate in rates.items() if item not in case.left_out}
    seconds, whole, gpus = answer.numbers.get("days", math.nan) * day, sum(counted.values()), answer.numbers["gpus"]
    rows = [
        (item, rate * year, rate * hour / gpus, rate * seconds, rate / whole, _source(case, item, site_usd_per_J))
        for item, rate in counted.items()
    ]
    columns = ["item", "usd_per_year", "usd_per_gpu_hour", "training_usd", "share", "source"]
    return pd.DataFrame(rows, columns=columns)


def site_costs(case: Case, answer: Answer, prices: pd.DataFrame) -> pd.DataFrame:
    """By how much each place moves the cost of a network's training: C(p of the place) - C(p without a site).

    prices: place, usd_per_J (NaN where unknown: then the catalog's is taken, and nothing moves).
    Columns place, usd_per_J, cost_usd, moved_usd, moved_share (of the cost without a site).
    """
    without_usd = with_energy(case, answer, EnergyPrices(None, None)).numbers["cost_usd"]
    costs = [
        with_energy(case, answer, EnergyPrices(None if math.isnan(price) else price, None)).numbers["cost_usd"]
        for price in prices["usd_per_J"]
    ]
    table = prices.reset_index(drop=True).assign(cost_usd=costs)
    table["moved_usd"] = table["cost_usd"] - without_usd
    return table.assign(moved_share=table["moved_usd"] / without_usd)


def item_rows(case: Case, item: str, site_usd_per_J: float | None = None) -> list[catalog.Value]:
    """Rows of the catalog that an item rests on, without those that the spec or a site replaces and those of books."""
    if item in ADDED:
        return rows_of(item_keys(item))
    spec, machine = case.spec, "operation"
    if item == "electricity":
        known = site_usd_per_J is not None or spec.operation.electricity is not None
        keys = [] if known else [("prices", "energy", "electricity_price")]
        return rows_of([*keys, *([] if spec.operation.load else [(machine, "machine", "mean_load")])])
    keys = [] if spec.operation.years else [(machine, "machine", "useful_life")]
    if item == "servers" and spec.books.server is None:
        keys += [("platforms", case.rack.name, "price"), *basis_keys(case.rack, spec.books.basis)]
    return rows_of(keys)


def _source(case: Case, item: str, site_usd_per_J: float | None) -> str:
    """Sources of an item in a line."""
    books = [f"prices of {case.prices.label()}"] if item == "network" else []
    rows = item_rows(case, item, site_usd_per_J)
    sited = site_usd_per_J is not None and case.spec.operation.electricity is None and item == "electricity"
    of_site = ["price of the site's state"] if sited else []
    return "; ".join([*books, *of_site, *([source_text(rows)] if rows else [])]) or "given in the spec"


def cost_columns(case: Case, items: pd.DataFrame, site_usd_per_J: float | None) -> dict[str, list[str]]:
    """Items of `ownership_table` as columns of texts. site_usd_per_J: price of energy of the site, None for none."""
    rests = ["; ".join(map(_row_text, item_rows(case, item, site_usd_per_J))) for item in items["item"]]
    if site_usd_per_J is not None and case.spec.operation.electricity is None:
        price = f"electricity price {number(float(convert(site_usd_per_J, 'USD/kWh')), 3)} USD/kWh, of the site's state"
        rests = [
            "; ".join(filter(None, (price, text))) if item == "electricity" else text
            for item, text in zip(items["item"], rests, strict=True)
        ]
    return {
        "item": list(items["item"]),
        **{
            head: [show(usd, "USD", 4) for usd in items[name]]
            for head, name in (
                ("a year of training", "usd_per_year"),
                ("a GPU-hour", "usd_per_gpu_hour"),
                ("the training", "training_usd"),
            )
        },
        "share": [f"{number(100 * share, 3)}%" for share in items["share"]],
        "rests on": rests,
    }


def _row_text(row: catalog.Value) -> str:
    """A row of the catalog with its range and kind: "interest rate 8 %/year (5.5 to 12), assumed"."""
    value, *ends = (
        number(float(convert(end, row.unit)), 3) for end in (row.value, row.low, row.high) if end is not None
    )
    span = f" ({' to '.join(ends)})" if ends else ""
    return f"{words(row.parameter)} {value}{'' if row.unit == '1' else f' {row.unit}'}{span}, {row.kind}"


def rents_table() -> pd.DataFrame:
    """Published rents: gpu, terms, usd_per_gpu_hour, low_usd, high_usd (NaN where there is no range), as_of, source."""
    rows = []
    for gpu in catalog.names("rents"):
        for parameter, terms in _RENTS.items():
            if parameter in catalog.item("rents", gpu):
                row = catalog.item("rents", gpu).row(parameter)
                ends = [math.nan if end is None else end * hour for end in (row.low, row.high)]
                rows.append((gpu, terms, row.value * hour, *ends, row.as_of, row.source))
    columns = ["gpu", "terms", "usd_per_gpu_hour", "low_usd", "high_usd", "as_of", "source"]
    return pd.DataFrame(rows, columns=columns)


def rent_columns() -> dict[str, list[str]]:
    """Published rents as columns of texts."""
    rents = rents_table()
    return {
        "GPU": list(rents["gpu"]),
        "terms": list(rents["terms"]),
        "a GPU-hour": [shown("gpu_hour_usd", usd, 3) for usd in rents["usd_per_gpu_hour"]],
        "range": [interval("gpu_hour_usd", *ends) for ends in zip(rents["low_usd"], rents["high_usd"], strict=True)],
        "as of": list(rents["as_of"]),
        "source": list(rents["source"]),
    }


def rents_text(gpu: str) -> str:
    """Published rents of a GPU in words."""
    rents = rents_table()
    rents = rents[rents["gpu"] == gpu]
    if rents.empty:
        return f"no published rent of {gpu} is known here"
    texts = []
    for row in rents.itertuples():
        alone = math.isnan(row.low_usd)
        told = f"from {shown('gpu_hour_usd', row.usd_per_gpu_hour, 3)}" if alone else ""
        texts.append(f"{told or interval('gpu_hour_usd', row.low_usd, row.high_usd)} {row.terms}")
    return f"published rents of {gpu}: {', '.join(texts)} ({max(rents['as_of'])})"
