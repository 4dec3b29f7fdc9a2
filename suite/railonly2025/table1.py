"""Table 1, Fig. 1 and the text of railonly2025: counts, cost and power, and the prices that it does not print."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import units
from railcore.network import cost, price_books
from railcore.network.bill import BETWEEN_SWITCHES, bill_total
from railcore.network.topology.clos import rail_parts
from suite.ledger import claims, grounds
from suite.ledger.readings import Entries, joined_texts, verdict_readings
from suite.railonly2023.rail_networks import TIED_RADIX, least_saving_radix, savings_table, switch_ratio_words

_TABLE, _TEXT, _FIGURE = "railonly2025.table1", "railonly2025.text", "railonly2025.fig1"
_RATIO = f"{_TEXT}.r64_switch_ratio"
_COST, _POWER = f"{_FIGURE}.cost_65536_400g", f"{_FIGURE}.power_65536_400g"


def cost_marks(values: Mapping[str, float]) -> list[tuple[str, float, float, str, str]]:
    """Numbers of the introduction for Fig. 1: column of `link_rate_costs`, GPUs, value, our verdict and both as text.

    values: ours, by claim id.
    """
    ids = {_COST: "cost_usd", _POWER: "power_w"}
    gpus = 65536  # of both, as their names say
    return [
        (ids[name], gpus, mark.value, mark.verdict, f"document:\n{mark.text}\nours: {_amount(mark.ours, name)}")
        for name, mark in claims.marks({name: values[name] for name in ids if name in values}).items()
    ]


def _amount(value: float, claim_id: str) -> str:
    return units.show(value, claims.claim(claim_id).unit, 3)


def table1_words(table: pd.DataFrame, values: Mapping[str, float]) -> str:
    """What the title of Table 1 says of the document. table: its `savings_table`; values: ours, by claim id."""
    ends = [f"{_TEXT}.{what}_saving_{end}" for what in ("cost", "power") for end in ("min", "max")]
    printed = [mark.text for mark in claims.marks({name: values[name] for name in ends}).values()]
    if not printed:
        return ""
    money, power = " to ".join(printed[:2]), " to ".join(printed[2:])
    solved = [row for row in grounds.calibrations() if set(row.used) & set(ends)]
    return (
        f" Prices and powers are solved from {sum(len(row.used) for row in solved)} of the document's numbers. Its "
        f"text says that {money} (at {table['gpus'].max():,} GPUs) and {power} (over all rows) are saved. "
        f"{switch_ratio_words(_RATIO, values[_RATIO])}"
    )


def cost_notes(curve: pd.DataFrame, values: Mapping[str, float]) -> list[str]:
    """What to know of a `link_rate_costs`: which lines meet at the largest cluster, and what contradicts the mark.

    values: ours, by claim id.
    """
    texts, largest = [], curve[curve["gpus"] == curve["gpus"].max()]
    for rate, part in largest.groupby("link_rate"):
        gpus, radices = part["gpus"].iloc[0], " and ".join(map(str, part["radix"]))
        if len(part) > 1 and part["tiers"].nunique() == 1 and np.ptp(part["cost_usd"]) < 1e-6 * part["cost_usd"].max():
            same = f"take the same tiers, {part['tiers'].iloc[0]} at {gpus:,} GPUs"
            texts.append(f"{units.show(rate, 'bps')}: lines meet (one drawn broader) where radix {radices} {same}")
    ids = _POWER, f"{_TEXT}.power_saving_max", f"{_TABLE}.n65536.r256.power_saving"
    if marks := claims.marks({name: values[name] for name in ids}):
        power, saved, share = marks.values()
        network = f"{units.number(100 * share.value)}% of this network"
        texts.append(f"the document's {power.text} contradict its Table 1, where {saved.text} saved are {network}")
    return texts


def printed_text_values(table: pd.DataFrame) -> dict[str, float]:
    """What the text says of a `savings_table`, by the last part of the claims' ids.

    Least and most saving of the largest clusters [USD] and of all [W], and how far money spreads over all, most / least
    (NaN where nothing is saved); at radix 64 tiers and switch_ratio; the most cost saving; the radix that saves least;
    the share of cases in which a rail takes fewer tiers; and the largest ratio of parts that can fail, switches and
    links, of rail-only over rail-optimized.
    """
    every = table["cost_usd_rail_optimized"] - table["cost_usd_rail_only"]
    money = every[table["gpus"] == table["gpus"].max()]
    power = table["power_w_rail_optimized"] - table["power_w_rail_only"]
    at_64 = table[table["radix"] == 64].iloc[0]
    only, optimized = (table[f"switches_{name}"] + table[f"links_{name}"] for name in reversed(cost.RAIL_NETWORKS))
    return {
        "cost_saving_min": money.min(),
        "cost_saving_max": money.max(),
        "cost_saving_spread": every.max() / every.min() if every.min() > 0 else np.nan,
        "power_saving_min": power.min(),
        "power_saving_max": power.max(),
        "intro_cost_saving_max": table["cost_saving"].max(),
        **at_64[["switch_ratio", "tiers_rail_optimized", "tiers_rail_only"]].add_prefix("r64_"),
        "worst_radix": least_saving_radix(table),
        "fewer_tiers": (table["tiers_rail_only"] < table["tiers_rail_optimized"]).mean(),
        "fault_parts_ratio": (only / optimized).max(),
    }


def ratio_bounds(table: pd.DataFrame, low: ArrayLike, high: ArrayLike) -> pd.DataFrame:
    """Ratios r = transceiver / port with which each row of `compare_rail_networks` saves from `low` to `high`.

    saving(r) = (dP + r dT) / (P + r T), with P ports and T transceivers of rail-optimized and dP, dT what rail-only
    has less, is monotone in r, so each bound is r = (s P - dP) / (dT - s T). Columns gpus, radix, least, most (0 to
    infinity; least > most where no ratio does). Rows hold together from the largest `least` to the smallest `most`.
    """
    p, t = (table[f"{part}_rail_optimized"].to_numpy(float) for part in ("ports", "transceivers"))
    dp, dt = (p - table["ports_rail_only"].to_numpy(float), t - table["transceivers_rail_only"].to_numpy(float))
    at_zero, at_infinity = dp / p, dt / t
    lowest, highest = np.minimum(at_zero, at_infinity), np.maximum(at_zero, at_infinity)
    ends = []
    for saved in (np.clip(low, lowest, highest), np.clip(high, lowest, highest)):
        with np.errstate(divide="ignore", invalid="ignore"):
            ends.append(np.where(saved == at_infinity, np.inf, np.abs((saved * p - dp) / (dt - saved * t))))
    never = (np.asarray(high) < lowest) | (np.asarray(low) > highest)
    any_ratio = lowest == highest
    least = np.select([never, any_ratio], [np.inf, 0.0], np.minimum(*ends))
    most = np.select([never, any_ratio], [0.0, np.inf], np.maximum(*ends))
    return table[["gpus", "radix"]].assign(least=least, most=most)


def allowed_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Ratios transceiver / port that every printed saving of Table 1 allows, if the document rounds or cuts digits off.

    table: `savings_table`. Columns saving (cost, power), digits, gpus, radix, least, most.
    """
    bounds = {}
    for what in ("cost", "power"):
        ids = [f"{_TABLE}.n{row.gpus}.r{row.radix}.{what}_saving" for row in table.itertuples()]
        printed = np.array([claims.paper_value(claim_id) for claim_id in ids])
        for digits, low, high in (("rounded", -0.005, 0.005), ("cut off", 0.0, 0.01)):
            bounds[what, digits] = ratio_bounds(table, printed + low, printed + high)
    return pd.concat(bounds, names=["saving", "digits"]).droplevel(2).reset_index()


def solved_sums(table: pd.DataFrame) -> dict[str, float]:
    """Port + transceiver [USD], [W] that the absolute savings of the text leave, by "cost" and "power".

    NaN where rail-only saves no port.
    """
    ports = table["ports_rail_optimized"] - table["ports_rail_only"]
    largest = ports[table["gpus"] == table["gpus"].max()]
    saved = {"cost": ("cost_saving_min", largest.min()), "power": ("power_saving_max", ports.max())}
    return {what: claims.paper_value(f"{_TEXT}.{name}") / n if n else np.nan for what, (name, n) in saved.items()}


def fitted_books(table: pd.DataFrame, prices: price_books.PriceBook, powers: price_books.PriceBook) -> pd.DataFrame:
    """Ratios and sums that all printed savings allow together, beside those of the books.

    Columns saving, digits, r_from, r_to, r of the book, port + transceiver (solved), and that of the book.
    """
    books, sums = {"cost": prices, "power": powers}, solved_sums(table)
    grouped = allowed_ratios(table).groupby(["saving", "digits"], sort=False)
    fits = grouped.agg(r_from=("least", "max"), r_to=("most", "min")).reset_index()
    fits["r of the book"] = [books[what].transceiver / books[what].port for what in fits["saving"]]
    fits["port + transceiver, solved"] = fits["saving"].map(sums)
    fits["port + transceiver of the book"] = [books[what].port + books[what].transceiver for what in fits["saving"]]
    return fits


def link_rate_costs(
    gpus: Sequence[int],
    hb_domain_size: int,
    links: Sequence[tuple[float, int]],
    prices: price_books.PriceBook,
    powers: price_books.PriceBook,
) -> pd.DataFrame:
    """Cost and power of rail-optimized networks, a row for each kind of link and each number of GPUs.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the clusters, and of an HB domain (scale-up or NVLink domain).
    links
        Link rate [bytes/s, one direction] and radix of each kind.
    prices, powers
        Books of prices [USD] and of peak powers [W], scaled to each rate (`PriceBook.at_rate`).

    Returns
    -------
    Columns link (rate and radix as text), link_rate, radix, gpus, tiers, cost_usd, power_w, includes, price_book,
    power_book.
    """
    tables = []
    for rate, radix in links:
        books = prices.at_rate(rate), powers.at_rate(rate)
        table = {"link": f"{units.show(rate, 'bps')}, radix {radix}", "link_rate": rate, "radix": radix, "gpus": gpus}
        totals = cost.part_totals(rail_parts(gpus, hb_domain_size, radix, 1), *books)
        table |= {name: totals[name] for name in ("tiers", "cost_usd", "power_w")}
        tables.append(cost.with_book_names(pd.DataFrame(table), *books))
    return pd.concat(tables, ignore_index=True)


def table1_claims(hb_domain_size: int, prices: price_books.PriceBook, powers: price_books.PriceBook) -> Entries:
    """Values, reasons and readings of the claims on counts, cost and power; prices, powers: books solved from them."""
    table = savings_table(_TABLE, hb_domain_size, prices, powers)
    values = _table_and_text(table)
    largest = table[table["gpus"] == table["gpus"].max()].iloc[0]
    values[_COST] = largest["cost_usd_rail_optimized"]
    values[_POWER] = largest["power_w_rail_optimized"]
    small_domains = _table_and_text(savings_table(_TABLE, 8, prices, powers))
    own_switches = _table_and_text(savings_table(_TABLE, hb_domain_size, prices, powers, share_switches=False))
    readings = verdict_readings(
        values,
        {
            "HB domains of 256 GPUs": {"8, which the text names too": small_domains},
            "rails that are less than a switch share one": {"a switch for each rail": own_switches},
        },
    )
    fewest = f"HB domains of 256 GPUs (8, which the text names too: {small_domains[f'{_TEXT}.fault_parts_ratio']:.3g})"
    readings = joined_texts(readings, {f"{_TEXT}.worst_radix": TIED_RADIX, f"{_TEXT}.fault_parts_ratio": fewest})
    fits = fitted_books(table, prices, powers).iloc[0]
    total = claims.paper_value(_COST)
    ratio = _ratio_for_total(largest, total, solved_sums(table)["cost"])
    saved = units.show(values[f"{_TEXT}.power_saving_max"], "W", 3)
    bill = rail_parts(int(largest["gpus"]), int(largest["hb_domain_size"]), int(largest["radix"]), 1).bill()
    without, drawn = (float(bill_total(bill, book, BETWEEN_SWITCHES)) for book in (prices, powers))
    boundary = "the links to GPUs count with their optics, "
    reasons = {
        _COST: f"the printed value needs transceiver / port = {ratio:.3f} at the same sum, "
        f"outside the {fits['r_from']:.3g} to {fits['r_to']:.4f} that the savings of Table 1 allow; {boundary}"
        f"{units.show(without, 'USD', 4)} without",
        _POWER: f"contradiction: the document saves {saved}, more than all this, and calls it "
        f"{table['power_saving'].max():.0%} of the network; {boundary}{units.show(drawn, 'W', 3)} without",
        f"{_TEXT}.intro_cost_saving_max": "abstract, Table 1 and conclusion print 77%, as this rounds; 76% has "
        "its digits cut off",
        f"{_TEXT}.cost_saving_spread": "contradiction: the powers beside it span both sizes of cluster, the money only "
        "that of 65,536 GPUs",
        _RATIO: "contradicts the table beside it, 1,536 of 2,560 switches; of the transceivers it is two thirds",
    }
    return Entries(values, reasons, readings)


def _ratio_for_total(row: pd.Series, total_usd: float, port_and_transceiver_usd: float) -> float:
    """Price ratio transceiver / port with which a rail-optimized network costs this total; the sum of both is known.

    total = P p + T q with p + q known: q = (total - P (p + q)) / (T - P). row: of a `compare_rail_networks` table.
    """
    ports, transceivers = row["ports_rail_optimized"], row["transceivers_rail_optimized"]
    transceiver = (total_usd - ports * port_and_transceiver_usd) / (transceivers - ports)
    return float(transceiver / (port_and_transceiver_usd - transceiver))


def _table_and_text(table: pd.DataFrame) -> dict[str, float]:
    text = {f"{_TEXT}.{key}": value for key, value in printed_text_values(table).items()}
    return claims.table_values(_TABLE, table) | text
