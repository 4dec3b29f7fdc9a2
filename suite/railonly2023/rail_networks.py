"""What railonly2023 and railonly2025 print alike of their networks: tables of savings, routes and failed switches."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import units
from railcore.network import cost, price_books
from railcore.network.topology import faults, reach, wiring
from railcore.network.topology.rails import HBDomains, rail_optimized
from suite.ledger import claims
from suite.ledger.readings import Entries, merge_entries
from suite.railonly2023.sensitivity import tornado_table

_WITH_SUMS = "railonly2025.table1"  # the table whose document tells of power, and of what is saved in USD and W
PLATFORMS = ["DGX H100", "MI300X full mesh", "GH200"]  # of the catalog: those whose HB bandwidth is printed
TIED_RADIX = "the smallest of tied ones; at 65,536 GPUs radix 128 saves no more"


def table_cases(table: str) -> pd.DataFrame:
    """Columns gpus and radix: the different cases of a table, such as "railonly2025.table1"."""
    return pd.DataFrame(claims.cases(table)).rename(columns={"n": "gpus", "r": "radix"})


def savings_table(
    table: str,
    hb_domain_size: int,
    prices: price_books.PriceBook,
    powers: price_books.PriceBook,
    share_switches: bool = True,
) -> pd.DataFrame:
    """`cost.compare_rail_networks` of the cases of a document's table.

    Parameters
    ----------
    table
        Claims of the table, such as "railonly2025.table1".
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    prices, powers
        Books of prices [USD] and of peak powers [W].
    share_switches
        Whether rails that are less than a switch share one, as the documents count.

    Returns
    -------
    A row for each case.
    """
    cases = table_cases(table)
    return cost.compare_rail_networks(cases["gpus"], hb_domain_size, cases["radix"], prices, powers, share_switches)


def printed_table(table: pd.DataFrame, item: str) -> pd.DataFrame:
    """A `savings_table` as the documents print theirs, with their percentages in brackets.

    item: of which document, such as "railonly2025.table1", which tells of power and of sums saved too.
    """
    shown = table[["gpus", "radix"]].rename(columns={"gpus": "GPUs", "radix": "switch radix"})
    for part in ("switches", "transceivers"):
        both = zip(*(table[f"{part}_{name}"] for name in cost.RAIL_NETWORKS), strict=True)
        shown[f"{part}, rail-optimized → rail-only"] = [f"{more:,.0f} → {less:,.0f}" for more, less in both]
    printed = claims.marks(claims.table_values(item, table))
    bracket = " (document)" if printed else ""
    for what, column, unit in (("cost", "cost_usd", "M USD"), ("power", "power_w", "MW"))[: 1 + (item == _WITH_SUMS)]:
        texts = [f"{units.significant(share):.1%}" for share in table[f"{what}_saving"]]
        if bracket:
            ids = [f"{item}.n{row.gpus}.r{row.radix}.{what}_saving" for row in table.itertuples()]
            texts = [f"{ours} ({printed[name].value:.0%})" for ours, name in zip(texts, ids, strict=True)]
        shown[f"{what} saved{bracket}"] = texts
        if item == _WITH_SUMS:
            saved = (table[f"{column}_rail_optimized"] - table[f"{column}_rail_only"]) / units.mega
            shown[f"{what} saved [{unit}]"] = [units.number(amount, 3) for amount in saved]
    return shown


def table_title(
    item: str, table: pd.DataFrame, hb_domain_size: int, prices: price_books.PriceBook, powers: price_books.PriceBook
) -> str:
    """What holds for every row of a `printed_table`: networks, links, HB domains, prices, and counts as the document's.

    Parameters
    ----------
    item
        "railonly2025.table1" or "railonly2023.table2".
    table
        Its `savings_table`.
    hb_domain_size
        GPUs of an HB domain.
    prices, powers
        Books.

    Returns
    -------
    Sentences.
    """
    books = {"USD": prices, "W": powers} if item == _WITH_SUMS else {"USD": prices}
    parts = {"a switch port": "port", "a transceiver": "transceiver"}
    amounts = [
        f"{units.show(getattr(book, key), symbol, 4)} {name}"
        for symbol, book in books.items()
        for name, key in parts.items()
    ]
    link = units.show(prices.rate_Bps or 0.0, "bps")
    text = f"Rail-only against rail-optimized, HB domains of {hb_domain_size} GPUs, links of {link}"
    text = f"{text}, {', '.join(amounts)}."
    values = {key: value for key, value in claims.table_values(item, table).items() if not _is_ratio(key)}
    counts = claims.marks(values).values()
    equal = sum(mark.verdict == "reproduced" for mark in counts)
    said = f" {equal} of {len(counts)} counts of switches and transceivers equal the document's."
    return text + (said if counts else "")


def _is_ratio(claim_id: str) -> bool:
    return claim_id.endswith(("saving", "ratio"))


def switch_ratio_words(claim_id: str, ours: float) -> str:
    """The share of switches that rail-only takes by a document's text and by its table; "" with the reader's numbers.

    claim_id: has the radix as "r64". ours: of the table.
    """
    (radix,) = re.findall(r"\br(\d+)", claim_id)
    printed, table = (f"{units.number(100 * share, 3)}%" for share in (claims.paper_value(claim_id), ours))
    words = f"At radix {radix} its text has rail-only with {printed} of the switches; the table has {table}."
    return words if claims.marks({claim_id: ours}) else ""


def least_saving_radix(table: pd.DataFrame) -> int:
    """Radix with the least cost saving in every cluster size of a `savings_table`, the smallest of tied ones.

    0 where no radix has the least saving in all of them.
    """
    least = table.assign(saving=table["cost_saving"].round(9))
    worst = [set(part.loc[part["saving"] == part["saving"].min(), "radix"]) for _, part in least.groupby("gpus")]
    return min(set.intersection(*worst), default=0)


def book_rows(prices: price_books.PriceBook, powers: price_books.PriceBook) -> dict[str, catalog.Value]:
    """Catalog rows of the inputs of `ownership_saving`, with low and high, for two books of the catalog, at their rate.

    Rows port_price, transceiver_price, port_power, transceiver_power, electricity_price and pue.
    """
    rows: dict[str, catalog.Value] = {}
    for (family, (what, _)), book in zip(catalog.BOOKS.items(), (prices, powers), strict=True):
        for part in ("port", "transceiver"):
            row = catalog.item(family, book.name).row(f"{part}_{what}")
            factor = getattr(book, part) / row.value if row.value else 1.0
            low, high = (None if end is None else end * factor for end in (row.low, row.high))
            label = book.label(rate=True)
            rows[row.parameter] = replace(row, value=row.value * factor, low=low, high=high, name=label)
    return rows | {key: catalog.item("prices", "energy").row(key) for key in ("electricity_price", "pue")}


def ownership_saving(gpus: int, hb_domain_size: int, radix: int, years: float, inputs: Mapping[str, float]) -> float:
    """Share of the cost of owning an all-optics rail-optimized network that rail-only saves.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `cost.ownership_costs`.
    inputs
        port_price, transceiver_price [USD], port_power, transceiver_power [W], electricity_price [USD/J] and pue.

    Returns
    -------
    Share of the total cost.
    """
    prices, powers = (
        price_books.PriceBook(inputs[f"port_{kind}"], inputs[f"transceiver_{kind}"]) for kind in ("price", "power")
    )
    rates = years, inputs["electricity_price"], inputs["pue"]
    full, rails = cost.ownership_costs(gpus, hb_domain_size, radix, prices, powers, *rates)["total_usd"]
    return float(cost.share_saved(rails, full))


def ownership_sensitivity(
    gpus: int, hb_domain_size: int, radix: int, years: float, ranges: Mapping[str, catalog.Value]
) -> pd.DataFrame:
    """`ownership_saving` with each input at its low and at its high, the others at their value.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `cost.ownership_costs`.
    ranges
        Catalog rows of the inputs of `ownership_saving`: `book_rows`.

    Returns
    -------
    Table of `tornado_table`, low and high in the units of the rows, and price_book and power_book, the names of the
    rows. An input without a low or a high keeps its value there; attrs["warnings"], a tuple of texts, names it.
    """
    values = {name: row.value for name, row in ranges.items()}

    def at(name: str, value: float) -> float:
        return ownership_saving(gpus, hb_domain_size, radix, years, {**values, name: value})

    table = tornado_table(
        {name: tuple(row.value if end is None else end for end in (row.low, row.high)) for name, row in ranges.items()},
        at,
        ownership_saving(gpus, hb_domain_size, radix, years, values),
        lambda name, value: units.number(units.convert(value, ranges[name].unit), 4),
    )
    units_of = {name: f" [{row.unit}]" if row.unit != "1" else "" for name, row in ranges.items()}
    table["input"] = [units.words(name) + units_of[name] for name in table["input"]]
    for column, name in (("price_book", "port_price"), ("power_book", "port_power")):
        table[column] = ranges[name].name
    fixed = [f"{units.words(name)} of {row.name}" for name, row in ranges.items() if None in (row.low, row.high)]
    text = f"The catalog has no low and high for {', '.join(fixed)}: they stay at their values and move nothing."
    table.attrs["warnings"] = (text,) if fixed else ()
    return table


def hb_domain_size() -> int:
    """GPUs of an HB domain (scale-up or NVLink domain) in both documents' tables: those of a GH200."""
    return int(catalog.item("platforms", "GH200")["gpus"])


def platform_bandwidths(names: list[str]) -> pd.DataFrame:
    """HB bandwidth of catalog platforms: links x bandwidth of a link, and what a domain of them adds up to.

    Columns platform, gpus, hb_links, link_Bps and gpu_Bps (one direction), all_gpus_both_ways_Bps, between_halves_Bps
    (one direction, `HBDomains.hb_bisection_Bps`).
    """
    rows = []
    for name in names:
        item = catalog.item("platforms", name)
        gpus, links, link = (item[key] for key in ("gpus", "hb_links", "hb_link_bandwidth"))
        domain = HBDomains(gpus, gpus, hb_Bps=links * link, hb_switches=item["hb_switches"])
        rows.append((name, gpus, links, link, links * link, 2 * gpus * links * link, domain.hb_bisection_Bps))
    columns = "platform gpus hb_links link_Bps gpu_Bps all_gpus_both_ways_Bps between_halves_Bps".split()
    return pd.DataFrame(rows, columns=columns)


def _both_tables() -> pd.DataFrame:
    """The cases of both documents' tables, each case once."""
    return pd.concat([table_cases("railonly2025.table1"), table_cases("railonly2023.table2")]).drop_duplicates()


def fault_survey(hb_domain_size: int) -> pd.DataFrame:
    """`faults.rail_switch_survey` of the cases of both documents' tables, each case once."""
    return faults.rail_switch_survey(_both_tables(), hb_domain_size)


def route_survey(hb_domain_size: int) -> pd.DataFrame:
    """Routes, bandwidth and a failed switch of the rail-optimized networks of both documents' tables, as wired.

    Columns gpus, radix; rails and pod_rails: in all, and most that share the switches of a pod; next_domain and
    next_rail: switches from GPU 1 of domain 1 to the first and to the second GPU of domain 2, over the network alone;
    bisection: over half of all NICs' bandwidth, the least of halves by domain and by rank; nics_kept: of the GPUs on a
    failed rail switch, those that the network still reaches.
    """
    rows = []
    for gpus, radix in _both_tables().itertuples(index=False):
        fabric = rail_optimized(gpus, hb_domain_size, radix)
        whole = wiring.whole_wiring(fabric)
        alone = replace(whole, hb_share=np.zeros(gpus))
        ways = [reach.switches_on_the_way(alone, hb_domain_size + rank) for rank in (0, 1)]
        halves = whole.domain < fabric.domains // 2, np.arange(gpus) % hb_domain_size < hb_domain_size // 2
        shares = [_flow_share(whole, half) for half in halves if half.any()]
        left = faults.wiring_left(whole, "rail switch")
        cut = faults.cut_from_network(whole, left).size if left else 0
        kept = np.count_nonzero(whole.leaf == whole.leaf[0, 0]) - cut
        most = max(len(pod) for pod in wiring.rails_of_pods(fabric))
        rows.append((gpus, radix, fabric.rails, most, *ways, min(shares), kept))
    return pd.DataFrame(rows, columns="gpus radix rails pod_rails next_domain next_rail bisection nics_kept".split())


def _flow_share(whole: wiring.Wiring, half: np.ndarray) -> float:
    """Bandwidth between some GPUs and the others over the NIC bandwidth of the fewer."""
    return reach.rail_flow(whole, whole, np.where(half, 1, 2)) / min(np.count_nonzero(half), np.count_nonzero(~half))


def _route_and_switch_claims(survey: pd.DataFrame, routes: pd.DataFrame, table: str) -> Entries:
    """Values and reasons of a document's claims on routes, rails and a failed rail switch; no readings.

    survey, routes: `fault_survey`, `route_survey`; table: that with the document's cases.
    """
    mine, document = survey.merge(table_cases(table)), table.partition(".")[0]
    wired, route = routes.merge(table_cases(table)), f"{document}.fig2.same_rail_switches"
    one_switch = [row for row in mine.itertuples() if row.same_rail_switches == 1]
    farthest = mine["same_rail_switches"].max()
    far = (
        f"between these two domains; to the farthest GPU of a rail {farthest} switches, 1 at {_cases(one_switch)} alone"
    )
    values, reasons = {route: wired["next_domain"].max()}, {route: far}
    if document == "railonly2025":
        values |= {
            "railonly2025.fig2.cross_rail_switches": wired["next_rail"].max(),
            "railonly2025.fig2.bisection": wired["bisection"].min(),
            "railonly2025.fig2.rails": wired["rails"].max(),
            "railonly2025.fig5.rail_bisection": mine["rail_bisection"].min(),
            "railonly2025.text.fault_switch_difference": wired["nics_kept"].max(),
        }
        return Entries(values, reasons, {})
    difference, pods = "railonly2023.fault.rail_switch_difference", "railonly2023.table2.pod_rails"
    unlike = [row for row in mine.itertuples() if row.nics_cut_difference]
    values |= {difference: mine["nics_cut_difference"].max(), pods: wired["pod_rails"].max()}
    reasons[pods] = f"more than one in {(wired['pod_rails'] > 1).sum()} of {len(wired)} cases"
    reasons[difference] = (
        "identical where a rail has two tiers of switches; a rail of one switch fills all its ports with GPUs, a leaf "
        "below spines half of them: " + ", ".join(f"{row.nics_cut_difference:+d} at {_cases([row])}" for row in unlike)
    )
    return Entries(values, reasons, {})


def _cases(rows: list) -> str:
    """Cases of a table in words, rows with gpus and radix: "32,768 GPUs with radix 256"."""
    return ", ".join(f"{row.gpus:,} GPUs with radix {row.radix}" for row in rows) or "no case"


def topology_claims(platforms: pd.DataFrame, survey: pd.DataFrame, routes: pd.DataFrame) -> Entries:
    """Values, reasons and readings of both documents' claims on HB bandwidth, routes, bisection and rail switches.

    platforms: `platform_bandwidths` of PLATFORMS; survey, routes: `fault_survey`, `route_survey`.
    """
    by_name = platforms.set_index("platform")
    values, reasons, readings = merge_entries(
        _hb_domain_claims(by_name.loc["GH200"]),
        _route_and_switch_claims(survey, routes, "railonly2025.table1"),
        _route_and_switch_claims(survey, routes, "railonly2023.table2"),
    )
    for key, platform in (("h100", "DGX H100"), ("mi300x", "MI300X full mesh")):
        gpu_Bps, claim_id = by_name["gpu_Bps"][platform], f"railonly2025.text.{key}_hb_bandwidth"
        values[claim_id] = units.convert(gpu_Bps, "bit/s")
        both = units.show(2 * gpu_Bps, "bps", 4)
        readings[claim_id] = f"one direction, per GPU; the document prints neither; both directions {both}"
    return Entries(values, reasons, readings)


def _hb_domain_claims(gh200: pd.Series) -> Entries:
    """railonly2023's introduction: bandwidth of NVLink 4 and bisection of a GH200."""
    nvlink, bisection = "railonly2023.intro.nvlink4_bandwidth", "railonly2023.intro.gh200_bisection"
    printed = catalog.item("platforms", "GH200")["hb_bandwidth_railonly2023"]
    values = {
        nvlink: 2 * units.convert(gh200["gpu_Bps"], "bit/s"),
        bisection: gh200["gpus"] * units.convert(printed, "bit/s"),
    }
    needed = units.convert(printed / gh200["hb_links"] / 2, "GB/s")
    reasons = {
        nvlink: f"the datasheet's sum of both directions, {gh200['hb_links']:g} links x 2 x "
        f"{units.convert(gh200['link_Bps'], 'GB/s'):g} GB/s; the printed value would need {needed:.4g} GB/s for a link "
        "and direction",
    }
    readings = {
        bisection: "all GPUs times the document's own sum of both directions; by the datasheet "
        f"{units.show(gh200['all_gpus_both_ways_Bps'], 'bps', 4)}, and in one direction between the halves "
        f"{units.show(gh200['between_halves_Bps'], 'bps', 4)}",
    }
    return Entries(values, reasons, readings)
