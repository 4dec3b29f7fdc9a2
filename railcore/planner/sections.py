"""Sections of a plan's document: strategy, failures, parts, energy and site, uncertainty, assumptions, sources."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.catalog.colours import TIMES
from railcore.catalog.units import convert, hour, number, show, words, year
from railcore.planner.answer import Answer
from railcore.planner.costs import boundary, cost_columns, cost_text, rent_columns, server_price
from railcore.planner.neighbours import neighbour_columns
from railcore.planner.published import MISS, checks_table
from railcore.planner.result import Plan
from railcore.planner.shown_numbers import NUMBERS, interval, shown
from railcore.planner.site_texts import place_points, site_cost_columns
from railcore.planner.spec_texts import value_text
from railcore.planner.time_columns import own_run_columns, software_columns
from railcore.planner.uncertainty import Uncertainty
from railcore.strategies.labels import strategy_label
from railcore.training.machine import Machine

_SHOWN_SOURCES = 60
_MOST_STAGES = 32  # of a pipeline, whose memory is listed
_PARTS = {  # of an iteration, in words
    **{"linear_s": "linear layers", "attention_s": "attention", "elementwise_s": "elementwise kernels"},
    **{"tensor_s": "tensor ranks", "context_s": "context ranks", "expert_s": "experts", "logits_s": "logits and loss"},
    **{"pipeline_s": "pipeline hops", "bubble_s": "pipeline bubble", "data_s": "data ranks", "once_s": "host, once"},
    **{"optimizer_s": "optimizer", "straggler_s": "slowest GPU", "circuits_s": "changes of circuits"},
}
_TRAFFIC = {"replica_share": "data", "expert_replica_share": "experts' data", "direct_share": "experts, direct"}
_LEAST_SHARE = 1e-5  # that is told in digits
Section = dict[str, Any]


def sections(plan: Plan, draws: bool) -> list[Section]:
    """All sections that the plan has something for. draws: whether uncertainty is one of them."""
    if plan.best is None:
        return [_parts(plan), _assumptions(plan)]
    of_best = [
        _parts(plan),
        _strategy(plan, plan.best),
        _failures(plan, plan.best),
        _cost(plan, plan.best),
        _energy(plan),
    ]
    if draws and plan.uncertainty is not None:
        of_best.append(_uncertainty(plan, plan.best, plan.uncertainty))
    return [*of_best, _published(), _assumptions(plan), _sources(plan)]


def capital(text: str) -> str:
    """The text with a capital letter first."""
    return text[:1].upper() + text[1:]


def row_words(row: Mapping[str, Any]) -> str:
    """A row of the catalog in words: "port price of street2025"."""
    what = words(row["parameter"])
    if row["name"] == "scaling":
        return f"{what} of {row['family']}"
    return what if row["name"] in ("energy", "machine", "job") else f"{what} of {row['name']}"


def row_value(row: Mapping[str, Any], column: str) -> str:
    """A value of a catalog row in the row's own unit."""
    entry = catalog.item(row["family"], row["name"]).row(row["parameter"])
    return f"{number(float(convert(row[column], entry.unit)), 3)}{'' if entry.unit == '1' else f' {entry.unit}'}"


def _section(name: str, title: str, lead: str, tables: Iterable[Section], notes: Iterable[str] = ()) -> Section:
    return {
        "id": name,
        "title": title,
        "lead": lead,
        "tables": [table for table in tables if table["rows"]],
        "notes": list(notes),
        "bars": None,
        "places": None,
    }


def _table(columns: Mapping[str, Sequence[str]] | pd.DataFrame, caption: str = "", align: str = "") -> Section:
    """A table of texts: columns by their head, the first to the left and others to the right unless said."""
    table = pd.DataFrame(columns)
    rows = [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    return {
        "caption": caption,
        "head": list(table.columns),
        "align": align or "l" + "r" * (table.shape[1] - 1),
        "rows": rows,
    }


def _quantities(values: Iterable[float], unit: str) -> list[str]:
    return [show(value, unit, 4) for value in values]


def _counts(values: Iterable[float]) -> list[str]:
    return [number(value, 9) for value in values]


def _percent(value: float, digits: int = 3) -> str:
    if 0 < value < _LEAST_SHARE:
        return f"under {number(100 * _LEAST_SHARE)}%"
    return "" if math.isnan(value) else f"{number(100 * value, digits)}%"


def _part(name: str) -> str:
    return _PARTS.get(name, words(name.removesuffix("_s")))


def _numbers_table(plan: Plan, names: Sequence[str], caption: str) -> Section:
    """A row for each possible network with numbers of NUMBERS."""
    rows = []
    for answer in plan.possible:
        texts = {NUMBERS[name].label: shown(name, answer.numbers[name]) for name in names if name in answer.numbers}
        rows.append({"network": answer.name} | texts)
    return _table(pd.DataFrame(rows), caption)


def _strategy(plan: Plan, best: Answer) -> Section:
    times = plan.times.set_index("candidate")
    shares = [name for name in times if name.endswith("_share")]
    shares = [name for name in shares if plan.case.model.experts or not name.startswith(("expert", "direct"))]
    parts = [name for name in times if name.endswith("_s") and name != "iteration_s"]
    names = [answer.name for answer in plan.possible]
    strategies = {
        "network": names,
        "strategy": [answer.label for answer in plan.possible],
        "GPUs used": [shown("gpus", answer.numbers["gpus_used"]) for answer in plan.possible],
        "iteration": [shown("iteration_s", answer.numbers["iteration_s"]) for answer in plan.possible],
        "MFU, causal": [shown("mfu", answer.numbers["mfu"]) for answer in plan.possible],
        "under other software": [
            f"{number(low, 3)} to {number(high, 3)} times" if high > low else "no other time"
            for low, high in zip(times["software_low"], times["software_high"], strict=True)
        ],
    }
    of_best = {name: float(times[name][best.name]) for name in parts if times[name][best.name] > 0}
    breakdown = {
        "part of the iteration": [_part(name) for name in of_best],
        "time": _quantities(of_best.values(), "s"),
        "share": [_percent(value / times["iteration_s"][best.name]) for value in of_best.values()],
    }
    of_nic = {"network": names} | {
        _TRAFFIC.get(name, words(name.removesuffix("_share"))): [_percent(value) for value in times[name]]
        for name in shares
    }
    tables = [_table(strategies, "Best strategy on each network", "llrrrr")]
    unscaled = "" if plan.case.measured_runs.empty else ", as modelled, without your runs"
    tables.append(_table(breakdown, f"Where the time goes: {best.name}{unscaled}"))
    tables += [_table(of_nic, "Share of a NIC that each kind of traffic gets")] if shares else []
    tables += [_table(columns, caption) for caption, columns in own_run_columns(plan).items()]
    tables.append(_table(software_columns(plan), f"The strategy of {best.name} under each software", "lrrrl"))
    tables += [_own_strategy(plan), _memory(plan)]
    lead = f"An iteration takes {plan.expected_error.between(best.design.iteration_s, 's')}."  # type: ignore[union-attr]
    section = _section("strategy", "Strategy and time", lead, tables)
    return section | {
        "bars": {
            "caption": f"An iteration on each network, by part{unscaled}",
            "unit": "s",
            "rows": _bars(times, parts),
        }
    }


def _bars(times: pd.DataFrame, parts: Sequence[str]) -> list[Section]:
    rows = []
    for name, row in times.iterrows():
        pieces = [
            {
                "label": _part(part),
                "value": float(row[part]),
                "text": show(row[part], "s", 3),
                "colour": TIMES.get(part.removesuffix("_s"), TIMES["other"]),
            }
            for part in parts
            if row[part] > 0
        ]
        rows.append({"label": str(name), "parts": pieces})
    return rows


def limit_text(limit: str, memory_bytes: float, machine: Machine) -> str:
    """What rules a strategy out, in words: `limit` as of `iteration_times`, or "GPUs"."""
    if limit == "feasible":
        return "it fits"
    texts, names = [], limit.split(", ")
    if "memory" in names:
        over = number(100 * (memory_bytes / machine.memory_bytes - 1), 2)
        held = f"{show(memory_bytes, 'B', 3)} on the fullest GPU, of {show(machine.memory_bytes, 'B', 3)}"
        texts.append(f"it does not fit: {held}, {over}% too much")
    if "GPUs" in names:
        texts.append("it takes more GPUs than there are")
    if others := [name for name in names if name not in ("memory", "GPUs")]:
        texts.append(f"it is ruled out by {', '.join(others)}")
    return "; ".join(texts)


def own_mapping(plan: Plan) -> str:
    """The spec's own mapping in words, with its batch where the best has another."""
    if plan.case.own_strategy is None:
        return ""
    strategy, batch = plan.case.own_strategy
    other = plan.best is not None and plan.best.numbers["batch"] != batch
    sequences = f" (batches of {batch:,} sequences)" if other else ""
    return f"Your own mapping, {strategy_label(strategy.columns(batch))}{sequences}"


def _own_strategy(plan: Plan) -> Section:
    times = plan.own_strategy
    if times.empty:
        return _table({})
    columns = {
        "network": times["candidate"],
        "iteration": _quantities(times["iteration_s"], "s"),
        "time of a sequence, over the best": [f"{number(value, 4)} times" for value in times["over_best"]],
        "limit": [limit_text(row.limit, row.memory_bytes, plan.case.machine) for row in times.itertuples()],
    }
    return _table(columns, own_mapping(plan), "lrrl")


def _memory(plan: Plan) -> Section:
    stages = plan.memory
    if not 0 < len(stages) <= _MOST_STAGES:
        return _table({})
    counted = ("stage", "layers", "in_flight", "fits")
    columns = {
        words(str(name)): [number(cell, 3) if name in counted else show(cell, "B", 4) for cell in column]
        for name, column in stages.items()
        if name != "fits"
    }
    return _table(columns, "Memory of a GPU of each pipeline stage", "r" * len(columns))


def _failures(plan: Plan, best: Answer) -> Section:
    rows, by_candidate = [], {name: table for name, table in plan.failures.groupby("candidate")}
    for answer in plan.possible:
        numbers, gone = answer.numbers, answer.numbers["failed_switch_gpus"]
        slower = f"{shown('failed_switch_tokens_share', numbers['failed_switch_tokens_share'])} of the speed"
        events = float(by_candidate[answer.name]["events_per_year"].iloc[-1])
        rows.append(
            {
                "network": answer.name,
                "stops a year": number(events, 3),
                "time between stops": f"{number(year / events / hour, 3)} h",
                "lost to stops": _percent(numbers["stopped"]),
                "lost to slow time": _percent(numbers["slowed"]),
                "goodput": shown("goodput", numbers["goodput"]),
                "GPUs out of service": number(numbers["gpus_down"], 3),
                "one failed leaf": f"stops about {number(round(gone))} GPUs" if gone else slower,
            }
        )
    table = by_candidate[best.name].iloc[:-1]
    speed = table["tokens_share"].where(~table["stops"].astype(bool))
    parts = {
        "part": table["part"],
        "count": [number(value, 6) for value in table["count"]],
        "failures a year": [number(value, 3) for value in table["events_per_year"]],
        "speed while it is down": [_percent(value, 4) or "stops the job" for value in speed],
        "time lost": [_percent(value, 2) for value in table["lost"]],
    }
    lead = "A failure that cuts GPUs off stops the job, which restarts from its last checkpoint; others slow it."
    if widest := plan.situation.widest(best):
        ranges = (
            f"{row.name} {words(row.parameter)} ({_percent(low)} to {_percent(high)})" for row, low, high in widest
        )
        lead += f" Goodput hangs most on {', '.join(ranges)}: give what you know of them in [operation]."
    tables = [_table(pd.DataFrame(rows), "Failures and goodput"), _table(parts, f"Parts that fail: {best.name}")]
    return _section("failures", "Fabrics and failures", lead, tables)


def missing_notes(plan: Plan) -> list[str]:
    """Why networks are not there; not that the job fits none, which the headline says."""
    missing = [answer for answer in plan.answers if answer.note and not (plan.fewest_that_fit and answer.fabric)]
    return [f"{capital(answer.name)} is not there: {answer.note}." for answer in missing]


def sizes_table(plan: Plan) -> Section:
    """Sizes next to the best network's."""
    caption = f"Sizes next to this one: {plan.best.name}, each searched whole" if plan.best else ""
    return _table(neighbour_columns(plan.case, plan.neighbours), caption)


def _parts(plan: Plan) -> Section:
    names = ("switches", "link_ends", "modules", "network_usd", "network_w", "purchase_usd", "ownership_usd")
    rows = []
    for answer in plan.answers:
        if answer.numbers:
            row = {"network": answer.name, "tiers": str(getattr(answer.fabric, "tiers", 1))}
            rows.append(row | {NUMBERS[name].label: shown(name, answer.numbers[name]) for name in names})
    names_of = [name for answer in plan.answers for name in (answer.name, *answer.also)]
    about = pd.DataFrame({"network": names_of, "is": [plan.about(name) for name in names_of]})
    tables = [_table(pd.DataFrame(rows), "Parts and purchase"), _table(about, "What each network is", "ll")]
    if plan.best is not None:
        bill = plan.bill[plan.bill["candidate"] == plan.best.name]
        columns = {
            "part": bill["part"],
            "scope": bill["scope"],
            "tier": bill["tier"].astype(str),
            "pieces": _counts(bill["count"]),
            "ports or ends": _counts(bill["units"]),
            "price": _quantities(bill["cost_usd"], "USD"),
            "power": _quantities(bill["power_w"], "W"),
        }
        tables.append(_table(columns, f"Bill: {plan.best.name}", "llrrrrr"))
        sides = plan.case.side_networks(int(plan.best.numbers["gpus"]))
        columns = {
            "network": sides["network"],
            "switch": sides["switch"],
            "switches": [number(value) for value in sides["switches"]],
            "price": _quantities(sides["cost_usd"], "USD"),
            "power": _quantities(sides["power_w"], "W"),
        }
        tables += [_table(columns, "Other networks that are counted", "llrrr")] if len(sides) else []
    thumb = plan.rule_of_thumb
    if len(thumb):
        columns = {
            "account": thumb["account"],
            "GPUs": _counts(thumb["gpus"]),
            "servers": _quantities(thumb["servers_usd"], "USD"),
            "facility power": _quantities(thumb["power_w"], "W"),
        }
        tables.append(_table(columns, "What a rule of thumb would buy, and the sum of parts"))
    notes = [server_price(plan.case), plan.case.links_text]
    notes += [answer.why_same for answer in plan.answers if answer.also]
    notes += missing_notes(plan)
    return _section("parts", "Parts and prices", boundary(plan.case), tables, notes)


def _cost(plan: Plan, best: Answer) -> Section:
    items, rents = cost_columns(plan.case, plan.ownership, plan.situation.site.usd_per_J), rent_columns()
    tables = [_table(items, f"Cost by item: {best.name}", "lrrrrl"), _table(rents, "Published rents", "llrrll")]
    lead = f"{cost_text(plan.case, best)}. The training's cost is that of owning the cluster while it trains."
    notes = [
        "Interest is the mean over the years of use. Idle time is what the cluster costs while nobody trains on it.",
        "operation.leave_out turns items off; without all of them wear and electricity are left.",
    ]
    return _section("cost", "Cost of ownership", lead, tables, notes)


def _energy(plan: Plan) -> Section:
    names = ("power_w", "energy_J", "carbon_kg", "cost_usd", "token_usd", "ownership_usd")
    tables, notes, places = [_numbers_table(plan, names, "Power, energy and what it costs")], [], None
    if plan.site is not None and plan.site.places is not None:
        found = plan.site.places
        listed, costs = found.shown(), site_cost_columns(plan)
        tables.append(_table(listed, capital(found.summary), "l" * listed.shape[1]))
        tables.append(_table(costs, "What the price of electricity there does to the training cost", "lrrr"))
        notes += [f"{capital(text)}." for text in found.basis]
        places = place_points(plan.site)
    if not any("carbon_kg" in answer.numbers for answer in plan.possible):
        notes.append("Carbon is not told: the region is not known. Give [site], or operation.carbon.")
    lead = "Energy is facility power times mean load times time."
    return _section("energy", "Energy and site", lead, tables, notes) | {"places": places}


def _uncertainty(plan: Plan, best: Answer, draws: Uncertainty) -> Section:
    rows = []
    for answer in plan.possible:
        row = {"network": answer.name}
        for name in ("days", "cost_usd", "purchase_usd", "power_w", "goodput"):
            row[NUMBERS[name].label] = interval(name, *draws.interval(answer.name, name))
        row |= {f"better than {best.name}": f"in {_percent(draws.better(answer.name, plan.rank))} of draws"}
        limited = any(value is not None for value in plan.spec.limits.model_dump().values())
        rows.append(row | ({"meets the limits": f"in {_percent(draws.met(answer.name))}"} if limited else {}))
    flips = [row for _, row in plan.flips.iterrows()]
    columns = {
        "row of the catalog": [row_words(row) for row in flips],
        "value": [row_value(row, "value") for row in flips],
        "flips at about": [row_value(row, "at") for row in flips],
        "then best": [row["best"].replace("none", "none meets the limits") for row in flips],
    }
    lead = (
        f"5 to 95% of {plan.spec.uncertainty.draws:,} draws: of the error of modelled times, as measured runs have it, "
        "and of the rows that are assumed or vary. All networks see the same draws."
    )
    notes = ["What circuits add to an iteration, and a site, stay as they are."]
    notes += ["Networks beside the scale-out one are not drawn."] if plan.spec.cluster.include else []
    notes += draws.notes
    tables = [_table(pd.DataFrame(rows), "5 to 95%"), _table(columns, "What alone flips the answer", "lrrl")]
    return _section("uncertainty", "Uncertainty", lead, tables, notes)


def _assumptions(plan: Plan) -> Section:
    case = plan.case
    rows = [
        [row.key, value_text(row.key, row.value), "given" if row.given else "default"]
        for row in plan.defaults.itertuples()
    ]
    of_spec = {row[0] for row in rows}
    resolved = {
        "job.tokens": f"{number(case.tokens / 1e12, 4)} T",
        "job.batch": f"{number(case.batch, 6)} sequences",
        "operation.electricity": _electricity(plan),
        "job.runtime": case.runtime.name,
        "network.technology": case.technology,
        **({"network.switch": case.switch} if case.switch else {}),
        "network.radix": f"{case.radix} ports of {show(case.machine.nic_Bps, 'bps')}",
        "cluster.hb_domain_size": f"{case.machine.hb_domain_size} GPUs",
        "books": f"{case.prices.label(rate=True)}; powers {case.powers.label(rate=True)}",
    }
    of_line = case.spec.job.launch is not None and case.own_strategy is not None and case.own_strategy[1] == case.batch
    said = {"job.batch": "of the launch line"} if of_line else {}
    said["network.technology"] = "of the switch" if case.spec.network.switch else "default"
    rows += [[key, value, said.get(key, "of the catalog")] for key, value in resolved.items() if key not in of_spec]
    table = {"caption": "Your spec and its defaults", "head": ["key", "value", "from"], "align": "lll", "rows": rows}
    return _section("assumptions", "Assumptions and boundary", boundary(plan.case), [table], plan.warnings)


def _electricity(plan: Plan) -> str:
    price, origin = plan.situation.site.usd_per_J, "of the site's state"
    if price is None:
        price, origin = catalog.item("prices", "energy")["electricity_price"], "of the catalog"
    return f"{number(float(convert(price, 'USD/kWh')), 3)} USD/kWh, {origin}"


def _published() -> Section:
    table = checks_table().sort_values("miss", ascending=False, kind="stable")
    columns = {
        "what": [f"{row['what']}: {row['subject']}" for _, row in table.iterrows()],
        "published": [f"{number(row['published'], 4)} {row['unit']}" for _, row in table.iterrows()],
        "ours": [f"{number(row['ours'], 3)} {row['unit']}" for _, row in table.iterrows()],
        "error": ["none" if error == 0 else f"{100 * error:+.0f}%" for error in table["error"]],
        "": ["miss" if miss else "" for miss in table["miss"]],
        "remark": table["remark"],
    }
    missed = int(table["miss"].sum())
    lead = f"{missed} of {len(table)} numbers of published clusters are missed by {100 * MISS:.0f}% or more. "
    lead += "The others of data/measured/cluster_checks.csv are of what no model here has."
    return _section("published", "Held against published clusters", lead, [_table(columns, align="lrrrll")])


def _sources(plan: Plan) -> Section:
    table = plan.sources.drop_duplicates(["family", "name", "parameter"])
    table = table[table["unit"] != "name"]
    rows = [
        [
            f"{row['family']}: {row['name']}, {words(row['parameter'])}",
            row_value(row, "value"),
            row["kind"],
            row["source"],
        ]
        for _, row in table.head(_SHOWN_SOURCES).iterrows()
    ]
    notes = [f"{len(table) - len(rows)} more rows are in the JSON."] if len(table) > len(rows) else []
    head = ["row of the catalog", "value", "kind", "source"]
    listed = {"caption": "Rows behind the numbers of the best network", "head": head, "align": "lrll", "rows": rows}
    lead = "A number's grade is the weakest kind of the rows behind it."
    return _section("sources", "Sources", lead, [listed], notes)
