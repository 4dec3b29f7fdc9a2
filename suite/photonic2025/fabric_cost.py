"""photonic2025 on what photonic rails cost and reach: Fig. 7, Table 3, and three ways to count electrical ports.

The document prints neither prices nor counts. A later public notebook of its authors has both: prices (the book
`street2025`), and switches whose radix is chosen for the cluster and rounded to a whole number.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import units
from railcore.network.bill import bill_total
from railcore.network.price_books import PriceBook
from railcore.network.topology.bill_line import BillLine
from railcore.network.topology.photonic import circuit_reach
from railcore.training.runs import published_table
from suite.ledger import claims
from suite.ledger.readings import Entries, joined_texts, verdict_readings
from suite.photonic2025.photonic_cost import CITED, PHOTONIC, cheapest_planes, photonic_network_costs, photonic_savings
from suite.photonic2025.reconfiguration import QUOTED_S

SCALE_UPS = {"GB200 NVL72": "gpus_gb200", "DGX H200": "gpus_h200"}  # platforms of Table 3 as its claims name them
ROUNDED, EXACT = "radix of the cluster, rounded", "three exact tiers"
_TABLE, _JOBS = "photonic2025.table3", "Llama Team 2024"  # claims; source of runs, the document's reference [20]
_COLUMNS = {"cost": "cost_usd", "power": "power_w"}
_SAVED = {what: f"photonic2025.fig7.{what}_saving_max" for what in ("cost", "power")}  # claims


def table3(nic_ports: int = 2, hb_domain_size: int | None = None) -> pd.DataFrame:
    """GPUs of the largest cluster behind one circuit switch a rail, for the switches of Table 3.

    nic_ports: of a NIC, with bidirectional transceivers; hb_domain_size: of one more column, gpus_own. Columns
    circuit_switch, reconfiguration_s, ports, gpus_gb200, gpus_h200; and with reference_ before ports and GPUs those of
    the switch that the document cites, NaN where it has as many ports.
    """
    domains = {column: int(catalog.item("platforms", name)["gpus"]) for name, column in SCALE_UPS.items()}
    if hb_domain_size is not None and hb_domain_size not in domains.values():
        domains["gpus_own"] = hb_domain_size
    rows = []
    for item in (catalog.item("circuit_switches", name) for name in catalog.names("circuit_switches")):
        if "claim_key" not in item:  # not of the document's table
            continue
        row = {"circuit_switch": item.name, "reconfiguration_s": item.get("reconfiguration_time", np.nan)}
        for before, ports in (("", item["ports"]), ("reference_", item.get("ports_reference"))):
            row[f"{before}ports"] = np.nan if ports is None else ports
            for column, size in domains.items():
                row[before + column] = np.nan if ports is None else float(circuit_reach(size, ports, nic_ports))
        rows.append(row)
    return pd.DataFrame(rows)


def printed_table3(table: pd.DataFrame, nic_ports: int = 2) -> pd.DataFrame:
    """`table3` as the document prints it, with the ports of the switches that it cites. nic_ports: as there."""
    texts = {"circuit_switch": "OCS technology", "reconfiguration_s": "reconfiguration [ms]", "ports": "radix [ports]"}
    names = {column: name for name, column in SCALE_UPS.items()} | {"gpus_own": "own HB domain"}
    for column, name in names.items():
        size = (
            "" if column == "gpus_own" else f" = {int(catalog.item('platforms', name)['gpus'])} × radix / {nic_ports}"
        )
        texts |= {column: f"GPUs, {name}{size}", f"reference_{column}": f"GPUs, {name}, switch cited"}
    texts["reference_ports"] = "radix, switch cited"
    times = [units.number(seconds / units.ms) for seconds in table["reconfiguration_s"]]  # as the document has them
    return table.assign(reconfiguration_s=times).rename(columns=texts)[[texts[column] for column in table]]


def table3_title(values: Mapping[str, float]) -> str:
    """What Table 3 shows, with how many of its numbers come out. values: ours, by claim id."""
    named = {name: value for name, value in values.items() if name.startswith(f"{_TABLE}.") and ".gpus_" in name}
    judged = [mark.verdict == "reproduced" for mark in claims.marks(named).values()]
    equal = f": {sum(judged)} of {len(judged)} equal the document's" if judged else ""
    return (
        f"Times and radix are the document's, GPUs computed{equal}. "
        "Last columns: with the ports of the switch that it cites."
    )


def rounded_rail_ports(gpus: ArrayLike, hb_domain_size: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Radix and switch ports of rail-optimized networks as the authors' later notebook rounds them.

    gpus N, hb_domain_size K. The radix is k = sqrt(4 N / K) to the nearest whole number; each rail has twice
    floor((N / K) / floor(k / 2)) switches, and floor(N / k) spines join the rails. With an even k that fits, and no
    rounding, these are 5 ports a GPU. Source: GitHub opusfabric/Opus, evaluation/energy-analysis/topology.
    """
    n, rails = np.asarray(gpus), np.asarray(hb_domain_size)
    domains = np.maximum(n // rails, 1)
    radix = np.floor(np.sqrt(4 * domains) + 0.5).astype(np.int64)
    in_rail = 2 * (domains // (radix // 2))
    return radix, radix * (rails * in_rail + rails * domains // radix)


def counted_networks(
    gpus: Sequence[int], hb_domain_size: int, radix: int, prices: PriceBook, powers: PriceBook, nic_ports: int = 2
) -> pd.DataFrame:
    """Rail-optimized counted in three ways, and the other networks, beside photonic rails whose ports in use count.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the clusters, and of an HB domain.
    radix
        Ports of a packet switch that one can buy.
    prices, powers
        Books of prices [USD] and of peak powers [W], with circuit ports.
    nic_ports
        Ports of a NIC: circuit ports a GPU; its one transceiver is bidirectional.

    Returns
    -------
    Columns of `photonic_network_costs`, and count (ROUNDED, EXACT, or the radix; "ports in use" of photonic rails),
    radix (NaN of photonic rails and of exact tiers), ports_per_gpu, transceivers_per_gpu.
    """
    bought = photonic_network_costs(
        gpus, hb_domain_size, radix, prices, powers, nic_ports=nic_ports, transceivers_per_gpu=1
    )
    photonic = bought["network"] == PHOTONIC
    blocks, n = [bought.assign(count=f"switches of {radix} ports", radix=float(radix))], np.asarray(gpus)
    blocks[0].loc[photonic, ["count", "radix"]] = ["ports in use", np.nan]
    rounded, ports = rounded_rail_ports(n, hb_domain_size)
    for count, radices, p in ((ROUNDED, rounded.astype(float), ports), (EXACT, np.nan, 5 * n)):
        counts = {"tiers": 3, "switches": p / radices, "ports": p, "transceivers": n + p}
        bill = BillLine("switch", "switches", p, p / radices), BillLine("transceiver", "switch links", n + p)
        totals = {name: bill_total(bill, book) for name, book in (("cost_usd", prices), ("power_w", powers))}
        same = bought[photonic].reset_index(drop=True)
        blocks.append(same.assign(network="rail-optimized", count=count, radix=radices, **counts, **totals))
    table = photonic_savings(pd.concat(blocks, ignore_index=True))
    table.attrs = bought.attrs
    per_gpu = {f"{part}_per_gpu": table[part] / table["gpus"] for part in ("ports", "transceivers")}
    return table.assign(**per_gpu)


def scale_up_name(hb_domain_size: int) -> str:
    """HB domains of a size in words, by the platform of Table 3 that has them."""
    sizes = {int(catalog.item("platforms", name)["gpus"]): f"{name} ({hb_domain_size} GPUs each)" for name in SCALE_UPS}
    return sizes.get(hb_domain_size, f"HB domains of {hb_domain_size}")


def figure7(table: pd.DataFrame, bought: pd.DataFrame, ocs_ports: int) -> pd.DataFrame:
    """Lines of Fig. 7, the document's two last: `counted_networks`, and photonic rails of whole circuit switches.

    bought: `photonic_network_costs` with `ocs_ports`. Columns of the table, and link, the name of the line.
    """
    whole_switches = bought[bought["network"] == PHOTONIC].assign(count=f"whole switches of {ocs_ports:,} ports")
    lines = pd.concat([table[table["count"] != EXACT], whole_switches], ignore_index=True)
    printed = lines["count"].isin([ROUNDED, "ports in use"])
    lines["link"] = lines["network"] + ", " + lines["count"] + np.where(printed, " (authors' count)", " (ours)")
    ordered = pd.concat([lines[~printed], lines[printed]], ignore_index=True)
    return _drawn_once(ordered)


def _drawn_once(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines, those with equal costs and powers everywhere drawn as one, with the names of all networks."""
    seen: dict[tuple, str] = {}
    same: dict[str, str] = {}
    for link, rows in lines.groupby("link", sort=False):
        key = tuple(rows[["gpus", "cost_usd", "power_w"]].round(2).to_numpy().ravel())
        same[str(link)] = seen.setdefault(key, str(link))
    kept = lines[[same[link] == link for link in lines["link"]]].reset_index(drop=True)
    twins: dict[str, list[str]] = {}
    for link, first in same.items():
        if link != first:
            twins.setdefault(first, []).append(link.partition(",")[0])
    named = {link: " and ".join([link.partition(",")[0], *twins[link]]) + link[link.index(",") :] for link in twins}
    return kept.assign(link=kept["link"].replace(named))


def savings_marks(table: pd.DataFrame, values: Mapping[str, float]) -> list[tuple[str, float, float, str, str]]:
    """The document's largest savings for Fig. 7, at the cluster of ours: column, GPUs, cost or power, verdict, text.

    table: of `counted_networks`. values: ours, by claim id.
    """
    best, columns = largest_savings(table).loc[ROUNDED], dict(zip(_SAVED.values(), _COLUMNS.values(), strict=True))
    marks = claims.marks({name: values[name] for name in columns if name in values})
    return [
        (column, best["gpus"], best[column] * (1 - marks[name].value), marks[name].verdict, _savings_text(marks[name]))
        for name, column in columns.items()
        if name in marks
    ]


def _savings_text(mark: claims.Mark) -> str:
    return f"document −{units.number(100 * mark.value, 4)}%,\ncomputed −{units.number(100 * mark.ours, 4)}%"


def savings_texts(table: pd.DataFrame, marked: Sequence[tuple]) -> list[tuple[str, float, float, str]]:
    """What photonic rails save of rail-optimized at each cluster but the marked: column, GPUs, their cost, and text.

    Both as the authors count them. table: of `counted_networks`; marked: of `savings_marks`.
    """
    places = {row[:2] for row in marked}
    rounded = table[table["count"] == ROUNDED]
    return [
        (column, gpus, cost * (1 - saved), f"−{units.number(100 * saved, 4)}%")
        for what, column in _COLUMNS.items()
        for gpus, cost, saved in zip(rounded["gpus"], rounded[column], rounded[f"{what}_saved"], strict=True)
        if (column, gpus) not in places
    ]


def savings_note(table: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Of what the percentages of Fig. 7 are, and what our own counts save. lines: of `figure7`."""
    authors = table.loc[table["count"] == ROUNDED, "network"].iloc[0]
    ours = lines[lines["link"].str.endswith("(ours)")]
    costs = ours.assign(photonic=ours["network"] == PHOTONIC)[ours["network"].isin([PHOTONIC, authors])]
    costs = costs.pivot_table(index="gpus", columns="photonic", values="cost_usd").reindex(columns=[False, True])
    saved = (1 - costs[True] / costs[False]).dropna()
    text = f"−%: what {PHOTONIC} save of {authors}, both by the authors' count"
    if saved.empty:
        return text
    least, most = (units.number(100 * share, 2) for share in (saved.min(), saved.max()))
    shares = f"{least}%" if least == most else f"{least} to {most}%"
    return f"{text}\nboth by ours: {shares} of the cost, up to {saved.index.max():,} GPUs"


def largest_savings(table: pd.DataFrame) -> pd.DataFrame:
    """Of each way to count the electrical rails in `counted_networks`, the cluster of which photonic rails save most.

    Rows by count: ROUNDED, EXACT, switches that one can buy, and these without the layer that joins the rails.
    """
    electrical = table[table["network"].isin(["rail-optimized", "rail-only"])]
    alone = electrical["network"] == "rail-only"
    count = electrical["count"].where(~alone, "rail-only with " + electrical["count"])
    best = electrical["cost_saved"].round(9).groupby(count, sort=False).idxmax()
    best = electrical.loc[best].set_index(best.index.rename("count"))
    return best.loc[[ROUNDED, EXACT, *(row for row in best.index if row not in (ROUNDED, EXACT))]]


def solved_prices(
    table: pd.DataFrame, prices: PriceBook, powers: PriceBook, ratios: Mapping[str, float]
) -> pd.DataFrame:
    """Price or power of one part that gives a saving, the two others as in the books, for each way to count.

    With p switch ports and p' transceivers a GPU against c circuit ports and t transceivers,
    (1 - s) (p P + p' T) = c C + t T is linear in each of P, T and C.

    Parameters
    ----------
    table
        `counted_networks`.
    prices, powers
        Its books.
    ratios
        Electrical over photonic, of "cost" and of "power", solved for too: s = 1 - 1 / ratio.

    Returns
    -------
    Columns saving, wanted, count, part (port, transceiver, circuit port), book, solved, least and most (at the ends of
    the printed digits, NaN for ratios); NaN where no price above 0 does.
    """
    best, photonic = largest_savings(table), table[table["network"] == PHOTONIC].iloc[0]
    circuits, modules = photonic["ports_per_gpu"], photonic["transceivers_per_gpu"]
    rows = []
    for what, book in (("cost", prices), ("power", powers)):
        printed = claims.claim(_SAVED[what])
        ends = printed.paper_value * (1 + printed.tolerance * np.array([0, -1, 1]))
        ratio = 1 - 1 / np.array([ratios[what], np.nan, np.nan])
        wanted = {f"{what} saving printed": (f"{units.number(100 * printed.paper_value, 4)}%", ends)}
        wanted |= {f"{what} ratio": (f"{ratios[what]:g}x", ratio)}
        for saving, (text, shares) in wanted.items():
            for count, row in best.iterrows():
                p, t, left = row["ports_per_gpu"], row["transceivers_per_gpu"], 1 - shares
                ports, optics, switched = p * book.port, t * book.transceiver, circuits * book.circuit
                module_usd = modules * book.transceiver
                with np.errstate(divide="ignore"):
                    solved = {
                        "port": (book.port, ((switched + module_usd) / left - optics) / p),
                        "transceiver": (book.transceiver, (switched - left * ports) / (left * t - modules)),
                        "circuit port": (book.circuit, (left * (ports + optics) - module_usd) / circuits),
                    }
                for part, (ours, price) in solved.items():
                    price = np.where((price > 0) & np.isfinite(price), price, np.nan)
                    least, most = np.sort(price[1:])
                    rows.append((saving, text, count, part, ours, price[0], least, most))
    return pd.DataFrame(rows, columns="saving wanted count part book solved least most".split())


def printed_prices(solved: pd.DataFrame) -> pd.DataFrame:
    """`solved_prices` with a column for each part: what it would be, and what the printed digits leave it."""
    rows = []
    for (saving, wanted), part in solved.groupby(["saving", "wanted"], sort=False):
        what = {"saving": saving, "wanted": wanted}
        if part["least"].notna().any():
            books = {row.part: units.number(row.book, 4) for row in part.itertuples()}
            rows.append(what | {"wanted": "", "count": "the book"} | books)
        for count, count_rows in part.groupby("count", sort=False):
            rows.append(what | {"count": count} | {row.part: _solved_text(row) for row in count_rows.itertuples()})
    table = pd.DataFrame(rows, columns=["saving", "wanted", "count", *solved["part"].unique()])
    table["saving"] = (
        table["saving"].str.replace(" printed", " of the document").str.replace(" ratio", ", later version")
    )
    return table.rename(columns={"wanted": "saving wanted", "count": "electrical network"})


def _solved_text(row: Any) -> str:
    if np.isnan(row.solved):
        return "–"
    ends = f" ({units.number(row.least, 4)} to {units.number(row.most, 4)})" if row.least > 0 else ""
    return units.number(row.solved, 4) + ends


def fabric_claims(table: pd.DataFrame, reaches: pd.DataFrame, powers: PriceBook) -> Entries:
    """Values, reasons and readings of the claims on cost, power and reach.

    table: `counted_networks` of the clusters of Fig. 7; reaches: `table3` with SCALE_UPS as columns; powers: its book.
    """
    best = largest_savings(table)
    shares = {
        count: {key: row[f"{what}_saved"] for what, key in _SAVED.items()}
        | {f"photonic2025.intro.{what}_saving": row[f"{what}_saved"] for what in _SAVED}
        for count, row in best[best["network"] == "rail-optimized"].iterrows()
    }
    largest = max(int(catalog.item("platforms", name)["gpus"]) for name in SCALE_UPS)
    priced = dict.fromkeys(
        [*shares[ROUNDED], "photonic2025.intro.ocs_power"],
        "prices and powers of the authors' later notebook, since the document prints none (others that give its "
        "savings: table extra.15_prices)",
    )
    jobs = published_table()
    jobs = jobs[jobs["source"].str.startswith(_JOBS)]
    values = shares.pop(ROUNDED) | {
        "photonic2025.table3.max_gpus": reaches[[*SCALE_UPS.values()]].max(axis=None),
        "photonic2025.intro.ocs_power": powers.circuit / powers.port,
        "photonic2025.sec2.hundreds_of_rails": largest,
        "photonic2025.sec2.thousands_of_endpoints": float(jobs["gpus"].max()),
    }
    fast = reaches[reaches["reconfiguration_s"] <= QUOTED_S]
    values[f"{_TABLE}.max_gpus_100ms"] = fast[[*SCALE_UPS.values()]].max(axis=None)
    cited = {f"{_TABLE}.max_gpus_100ms": _largest_cited(fast)}
    for row in reaches.set_index("circuit_switch").itertuples():
        key = catalog.item("circuit_switches", row.Index)["claim_key"]
        for column in SCALE_UPS.values():
            values[f"{_TABLE}.{key}.{column}"] = getattr(row, column)
            if np.isfinite(other := getattr(row, f"reference_{column}")):
                cited[f"{_TABLE}.{key}.{column}"] = other
    choices = {
        "switch ports as that notebook rounds them": shares,
        "ports as the table prints them": {"those of the switch it cites": cited},
    }
    reasons = {
        "photonic2025.sec2.hundreds_of_rails": "one rail for each GPU of a scale-up domain; the largest that the "
        f"document names has {largest} GPUs",
        "photonic2025.sec2.thousands_of_endpoints": f"{jobs['model'].iloc[0]}, reference [20]",
    }
    return Entries(values, reasons, joined_texts(priced, verdict_readings(values, choices)))


def _largest_cited(reaches: pd.DataFrame) -> float:
    """GPUs that the switches reach at most, with the ports of those that the document cites."""
    columns = [*SCALE_UPS.values()]
    cited = reaches[[f"reference_{column}" for column in columns]].set_axis(columns, axis=1)
    return float(cited.fillna(reaches[columns]).max(axis=None))


def savings_words(
    plans: pd.DataFrame, circuit_switch: str, gpus: int, hb_domain_size: int, mapped: pd.DataFrame
) -> str:
    """What photonic rails of a circuit switch save for a cluster, and what to ask for first; sentences.

    Parameters
    ----------
    plans
        Of `circuit_switch_plans` for the cluster.
    circuit_switch
        One of them.
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain).
    mapped
        `photonic_network_costs` of the map that is drawn.

    Returns
    -------
    The sentences.
    """
    platforms = {int(catalog.item("platforms", name)["gpus"]): name for name in SCALE_UPS}
    domains = f"as of {platforms[hb_domain_size]}" if hb_domain_size in platforms else f"of {hb_domain_size:,}"
    cluster = f"{gpus:,} GPUs in HB domains {domains}"
    mine = plans[plans["circuit_switch"] == circuit_switch]
    if mine["cost_usd"].isna().all():
        return (
            f"Nothing for {cluster}: {circuit_switch} serves at most {mine['largest_cluster'].max():,}. Take larger HB "
            "domains, which have smaller rails, or a switch of more ports."
        )
    best = mine[mine["planes"] == cheapest_planes(plans, circuit_switch)].iloc[0]
    saved = {name: 1 - best["cost_usd"] / best[f"rail_{name}_cost_usd"] for name in ("optimized", "only")}
    than = [f"{abs(share):.1%} {'more' if share < 0 else 'less'} than rail-{name}" for name, share in saved.items()]
    told = f"With {circuit_switch} circuit switches, photonic rails for {cluster} cost {' and '.join(than)}. "
    if saved["only"] < 0:
        return f"{told}Take rail-only, which has no circuits to change."
    larger = mapped[(mapped["network"] == "rail-only") & (mapped["hb_domain_size"] > hb_domain_size)]
    dearer = "With large HB domains rail-only is cheaper (orange). " * bool((larger["cost_saved"] < 0).any())
    cited = plans[plans["circuit_switch"] == f"{circuit_switch}{CITED}"]
    ports = "the cited switch has too few ports, " * bool(len(cited) and cited["cost_usd"].isna().all())
    advice = f"Ask for an offer first: {ports}the price of a port decides, and changes of circuits slow training."
    return f"{told}{dearer}{advice}"
