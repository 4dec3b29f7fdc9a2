"""A plan as people read it: the document of the page and of JSON, and texts for a terminal and Markdown."""

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pandas as pd

from railcore.catalog.colours import network_colour
from railcore.catalog.tables import aligned_table, markdown_table, markdown_words
from railcore.catalog.units import number, show
from railcore.planner.answer import Answer
from railcore.planner.choice import GOALS, missed_limits, missed_text
from railcore.planner.costs import boundary, cost_text, server_price
from railcore.planner.decision import next_steps, risks
from railcore.planner.neighbours import neighbour_columns
from railcore.planner.network_diagram import diagram
from railcore.planner.result import Plan
from railcore.planner.sections import (
    capital,
    limit_text,
    missing_notes,
    own_mapping,
    row_value,
    row_words,
    sections,
    sizes_table,
)
from railcore.planner.shown_numbers import FIRST, NUMBERS, interval, shown
from railcore.planner.site_texts import site_sentences
from railcore.planner.spec import GoalsSpec, Spec
from railcore.planner.uncertainty import NO_DIFFERENCE

_ALONE = " One file; nothing is loaded from elsewhere."
_USUAL = "rail-optimized"  # the network that others are held against
_SHOWN_FLIPS, _SHOWN_EQUAL = 3, 3
_FEW_PAIRS = 20  # of mappings, from which it is said how many the model orders right
_SURE = 0.95  # share of the draws from which a limit counts as met
_OF_NEAREST = ["software", "runtime", "model", "platform", "precision", "gpus", "global_batch"]  # in JSON
_OF_NEAREST += ["measured_iteration_s", "best_s", "flag", "source"]
_LEAST_GAP = 5e-4  # relative difference below which two numbers are equal
_LEAST_SHIFT = 0.005  # of the middle of what is expected from the modelled time, which is told


def headline(plan: Plan, draws: bool = False) -> str:
    """The answer: what is bought for how much, its time with its interval, by how much it wins, what flips it.

    draws: whether ties by all draws are known.
    """
    best, limits = plan.best, _goals_text(plan.spec.limits)
    if best is None and plan.fewest_that_fit:
        return f"{plan.fewest_that_fit}."
    if best is None and (plan.spec.find is not None or limits):
        return f"Not reachable: {plan.answers[0].note}."
    if best is None:
        return f"No network runs {plan.case.model.name} here. {capital(plan.answers[0].note)}."
    numbers = best.numbers
    days, cost = (shown(name, numbers[name]) for name in ("days", "cost_usd"))
    does = f"trains {plan.case.model.name} in {days} ({_between_days(plan)} in nine of ten cases) for {cost}"
    if plan.spec.find is not None:
        does += f" on {shown('gpus', numbers['gpus'])} GPUs"
    if not plan.met:
        missed = [missed_text(best, plan.spec.limits, key) for key in missed_limits(best, plan.spec.limits)]
        if not missed and plan.site is not None:
            return f"Not reachable: {plan.site.note}. Without a site, {best.name} {does}."
        nearest = f"Not reachable: no network meets {limits}. The nearest, {best.name}, {does}"
        return f"{nearest}: {' and '.join(missed)}. {plan.gpus_that_would_do}".rstrip()
    under = f", within {limits}" if limits else ""
    price, network = (shown(name, numbers[name]) for name in ("purchase_usd", "network_usd"))
    buys = f"Buy {best.name} for {price}, of which the network {network}: it {does}{under}."
    wins = ", and ".join(filter(None, [_saved(plan, best), _less_than_second(plan, draws)]))
    texts = [buys, f"{capital(wins)}." if wins else "", _flip_sentence(plan)]
    return " ".join(filter(None, texts))


def _saved(plan: Plan, best: Answer) -> str:
    """What the best network saves of the purchase against the usual one, or the second where it is that; a clause."""
    others = [answer for answer in plan.possible if answer is not best]
    usual = next((answer for answer in others if _USUAL in (answer.name, *answer.also)), None)
    other = usual or next(iter(others), None)
    if other is None:
        return ""
    saved_usd = other.numbers["purchase_usd"] - best.numbers["purchase_usd"]
    if abs(saved_usd) < _LEAST_GAP * best.numbers["purchase_usd"]:
        return f"it costs as much to buy as {other.name}"
    amount = show(abs(saved_usd), "USD", 3)
    if saved_usd > 0:
        return f"it saves {amount} of purchase against {other.name}"
    return f"it costs {amount} more to buy than {other.name}"


def _between_days(plan: Plan) -> str:
    """The interval of the days in words: "between 17 and 33.3 days"."""
    low, high = plan.days_interval
    if not math.isfinite(high):
        return interval("days", low, high)
    return f"between {interval('days', low, high).replace(' to ', ' and ')}"


def _less_than_second(plan: Plan, draws: bool) -> str:
    """By how much the best is better than the second within the limits, or which are no different; a clause."""
    best = plan.best
    assert best is not None
    others = [answer for answer in plan.possible[1:] if not missed_limits(answer, plan.spec.limits)]
    if not others:
        return ""
    label, value, second = NUMBERS[plan.rank].label, best.numbers[plan.rank], others[0]
    equal = [answer.name for answer in others if abs(1 - value / answer.numbers[plan.rank]) < NO_DIFFERENCE]
    equal = list(dict.fromkeys([*([second.name] if draws and second.name in plan.ties else []), *equal]))
    if equal:
        listed = (
            equal
            if len(equal) <= _SHOWN_EQUAL
            else [*equal[: _SHOWN_EQUAL - 1], f"{len(equal) - _SHOWN_EQUAL + 1} others"]
        )
        names = " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
        return f"the models can tell no difference to {names} by {label}"
    by = 1 - value / second.numbers[plan.rank]
    text = f"by {label} it is {number(100 * abs(by), 2)}% {'less' if by > 0 else 'more'} than {second.name}"
    return text + (", which misses more wishes" if by < 0 else "")


def error_texts(plan: Plan) -> list[str]:
    """What the interval of the time rests on: runs like it and own ones; then the nearest published one."""
    if plan.best is None or plan.best.design is None:
        return []
    error, design, batch = plan.expected_error, plan.best.design, int(plan.best.numbers["batch"])
    modelled_s = design.iteration_s
    modelled, middle = show(modelled_s, "s", 3), show(modelled_s * error.middle, "s", 3)
    texts = [f"This rests on {error.evidence}" if error.runs else capital(error.evidence)]
    if error.own:
        before = plan.case.published_error(design.gpus)
        texts.append(f"Before your runs an iteration took {modelled}, {before.between(modelled_s, 's')}")
        texts.append(f"With them it takes {middle}, {error.between(modelled_s, 's')}")
    elif abs(error.middle - 1) >= _LEAST_SHIFT:
        change = f"{number(100 * abs(error.middle - 1), 2)}% {'longer' if error.middle > 1 else 'less'}"
        days = shown("days", plan.best.numbers["days"] * error.middle, 3)
        text = f"Such jobs typically take {change} than the model's best: {middle} an iteration, not {modelled}"
        texts.append(f"{text}, and then some {days}")
    if plan.spec.cluster.measured is not None:
        texts.append("Published runs are held against the catalog as shipped, not against your own rows")
    machine, run = plan.case.machine, error.nearest
    job = (plan.case.model.name, machine.gpu, machine.precision, design.gpus, batch)
    same = job == tuple(run[name] for name in ("model", "gpu", "precision", "gpus", "global_batch"))
    held = [f"The nearest published run: {error.nearest_run(modelled_s if same else None)}"]
    if error.pairs >= _FEW_PAIRS:
        right = f"{number(100 * error.order, 2)}% of {error.pairs:,} pairs"
        held.append(f"Of two published strategies of one job the model names the faster one in {right}")
    return [". ".join(sentences) + "." for sentences in (texts, held)]


def model_text(plan: Plan) -> str:
    """The model's parameters, which show a wrong size."""
    model = plan.case.model
    active = f", {number(model.active_parameters / 1e9, 4)} B of a token" if model.experts else ""
    adapters = f", {number(model.trained_parameters / 1e6, 4)} M of adapters trained" if model.lora_rank else ""
    count = f"{number(model.total_parameters / 1e9, 4)} B parameters{active}{adapters}"
    return f"{count} with {model.ffn_matrices} matrices in a feed-forward"


def _flip_sentence(plan: Plan) -> str:
    table = plan.flips
    if table.empty:
        return "No single price, power or rate flips that within its range."
    row = table.iloc[0]
    now = f"{row_value(row, 'at')} (now {row_value(row, 'value')})"
    return f"What flips it first: {row_words(row)} of {now}; then {_then(row)}."


def _then(row: Any) -> str:
    """What a flip makes the best."""
    return "none meets the limits" if row["best"] == "none" else f"{row['best']} is best"


def _goals_text(goals: GoalsSpec) -> str:
    ends = {"cost": " of training cost", "purchase": " of purchase", "goodput": " of goodput", "gpus": " GPUs"}
    texts = []
    for key, name in GOALS.items():
        goal = getattr(goals, key)
        if goal is not None:
            texts.append(f"{'at least ' * (key == 'goodput')}{shown(name, goal)}{ends.get(key, '')}")
    return " and ".join(texts)


def verdicts(plan: Plan, draws: bool) -> list[dict[str, str]]:
    """What misses a limit, ties or flips, and what the plan takes in place of what was asked; a line each."""
    best, limits, wishes = plan.best, plan.spec.limits, plan.spec.wishes
    lines = []
    if best is not None and missed_limits(best, limits):  # of others the table tells it
        text = f"{capital(best.name)} misses a limit: {_missed_texts(best, limits)}."
        lines.append({"kind": "bad", "text": text})
    if best is not None and missed_limits(best, wishes):
        lines.append({"kind": "note", "text": f"{capital(best.name)} misses a wish: {_missed_texts(best, wishes)}."})
    if plan.site is not None and plan.site.note:
        lines.append({"kind": "bad", "text": f"{capital(plan.site.note)}. Grid: {plan.site.grid_name}."})
    notes = site_sentences(plan)
    if best is not None and plan.met and limits.days and not draws:
        high = plan.days_interval[1]
        if high > limits.days:
            limit, longest = shown("days", limits.days), shown("days", high, 3)
            notes.append(f"The limit of {limit} is not sure: the training may take {longest}.")
    if draws and plan.ties:
        notes.append(f"{capital(' and '.join(plan.ties))} may be better within what is not known: a tie.")
    if draws and best is not None and plan.met and plan.uncertainty is not None:
        met = plan.uncertainty.met(best.name)
        if met < _SURE:
            notes.append(f"{capital(best.name)} meets the limits in {number(100 * met, 2)}% of the draws.")
    notes += _adjusted(plan) + plan.size_texts
    for _, row in plan.flips.iloc[1:_SHOWN_FLIPS].iterrows():
        notes.append(f"With {row_words(row)} of {row_value(row, 'at')}, {_then(row)}.")
    return lines + [{"kind": "note", "text": text} for text in notes]


def _missed_texts(answer: Answer, goals: GoalsSpec) -> str:
    return "; ".join(f"{key} {missed_text(answer, goals, key)}" for key in missed_limits(answer, goals))


def _adjusted(plan: Plan) -> list[str]:
    """What the plan takes in place of what was asked."""
    best, gpus = plan.best, plan.spec.cluster.gpus
    if best is None:
        return []
    texts, numbers = [], best.numbers
    if gpus and numbers["gpus"] != gpus:
        texts.append(f"{gpus:,} GPUs are {shown('gpus', numbers['gpus'])} in whole racks of the platform.")
    if numbers["gpus_used"] < numbers["gpus"]:
        used = f"{shown('gpus', numbers['gpus_used'])} of {shown('gpus', numbers['gpus'])} GPUs"
        domain = best.design.machine.hb_domain_size if best.design else 0
        if domain < plan.case.machine.hb_domain_size:
            used += f", {domain} of each {plan.case.machine.hb_domain_size} in an HB domain"
        texts.append(f"The job uses {used}: this is faster than with all, which divide it worse.")
    if numbers["batch"] != plan.case.batch:
        tokens = number(numbers["batch"] * plan.case.model.sequence_length / 1e6, 4)
        near = f"near the {number(plan.case.batch, 4)} asked for, and divides well"
        texts.append(f"The batch is {shown('batch', numbers['batch'])} ({tokens}M tokens), {near}.")
    return texts


def document(plan: Plan, draws: bool) -> dict[str, Any]:
    """What the page shows, as texts and numbers. draws: whether intervals are computed."""
    best, spec, case = plan.best, plan.spec, plan.case
    job = [f"{number(case.tokens / 1e12, 4)} T tokens"]
    if best:
        job.append(f"batches of {number(best.numbers['batch'], 9)} x {case.model.sequence_length:,} tokens")
    job += [model_text(plan), case.machine.precision, f"software {case.runtime.name}"]
    gpus = f"{shown('gpus', best.numbers['gpus'])} GPUs, " if best else ""
    limits, wishes = spec.limits, spec.wishes
    return {
        "title": spec.title or f"{gpus}{case.rack.name}, for {case.model.name}",
        "subtitle": ", ".join(job),
        "headline": headline(plan, draws),
        "error": _error(plan),
        "rests_on": error_texts(plan),
        "verdicts": verdicts(plan, draws),
        "columns": [{"key": name, **NUMBERS[name]._asdict()} for name in first_numbers(plan)],
        "deciding": list(dict.fromkeys(["days", plan.rank])),
        "candidates": [_candidate(plan, answer, draws) for answer in plan.answers],
        "run": " ".join(_run_texts(plan)),
        "sizes": sizes_table(plan) if best else None,
        "risks": risks(plan, draws) if best else [],
        "next_steps": next_steps(plan) if best else [],
        "drawing": _drawing(plan),
        "chart": {
            "x": _axis("days", "training time (days)", limits.days, wishes.days),
            "y": _axis("cost_usd", "training cost (M USD)", limits.cost, wishes.cost) | {"scale": 1e6},
        },
        "sections": sections(plan, draws),
        "made": _made(spec),
    }


def _made(spec: Spec) -> str:
    """Who made a page, when and with which version."""
    by = f"by {spec.author}" if spec.author else ""
    on = f"on {spec.date}" if spec.date else ""
    return " ".join(filter(None, ("Made", by, on, f"with railcore {import_module('railcore').__version__}."))) + _ALONE


def _drawing(plan: Plan) -> dict[str, Any] | None:
    """What is drawn of the best network."""
    best = plan.best
    if best is None or best.fabric is None or best.numbers["switches"] == 0:
        return None
    bill = plan.bill[plan.bill["candidate"] == best.name]
    return diagram(best.fabric, bill, best.racks, plan.case.rack.name, network_colour(best.name)) | {
        "caption": f"{capital(best.name)}: what is built"
    }


def _error(plan: Plan) -> dict[str, Any] | None:
    """What days and an iteration [s] are expected to take, and what that rests on, as numbers."""
    if plan.best is None or plan.best.design is None:
        return None
    error, modelled_s = plan.expected_error, plan.best.design.iteration_s
    ends = ("low", "lower", "middle", "upper", "high")
    times = {f"iteration_{name}_s": modelled_s * getattr(error, name) for name in ends}
    ends_of_days = (end if math.isfinite(end) else None for end in plan.days_interval)
    times |= dict(zip(("days_low", "days_high"), ends_of_days, strict=True))
    if error.own:
        before = plan.case.published_error(plan.best.design.gpus)
        times |= {f"published_{name}_s": modelled_s * getattr(before, name) for name in ends}
    counts = {name: getattr(error, name) for name in ("runs", "largest", "places", "own", "pairs")}
    counts |= {"order": error.order if error.pairs else None}
    nearest = error.nearest[_OF_NEAREST].to_dict()  # in Python's numbers
    told = {"group": error.group, "missing": list(error.missing), "nearest": nearest, "text": error_texts(plan)}
    return {"iteration_modelled_s": modelled_s} | times | counts | told


def first_numbers(plan: Plan) -> list[str]:
    """The six numbers of the first screen. GPUs are among them where networks may have different numbers of GPUs."""
    cluster = plan.spec.cluster
    differ = plan.spec.find is not None or cluster.budget is not None or cluster.power is not None
    return ["gpus", *FIRST[:-1]] if differ else list(FIRST)


def _axis(key: str, label: str, limit: float | None, wish: float | None) -> dict[str, Any]:
    return {"key": key, "label": label, "limit": limit, "wish": wish}


def _candidate(plan: Plan, answer: Answer, draws: bool) -> dict[str, Any]:
    possible = answer.design is not None
    missed = list(missed_limits(answer, plan.spec.limits)) if possible else []
    state = "missed" if missed else "other" if possible else "grey"
    if answer is plan.best and not missed:
        state = "best"
    elif draws and answer.name in plan.ties:
        state = "tie"
    return {
        "name": answer.name,
        "is": plan.about(answer.name),
        "why_same": answer.why_same,
        "note": answer.note,
        "also": list(answer.also),
        "state": state,
        "misses": missed,
        "colour": network_colour(answer.name),
        "numbers": {name: _number(plan, answer, name, draws) for name in answer.numbers} if possible else {},
    }


def _number(plan: Plan, answer: Answer, name: str, draws: bool) -> dict[str, Any]:
    """A number as the page has it: value, 5 to 95% where it is drawn, texts, grade and source."""
    value, ends = answer.numbers[name], (math.nan, math.nan)
    if draws and plan.uncertainty is not None:
        ends = plan.uncertainty.interval(answer.name, name)
    low, high = (end if math.isfinite(end) else None for end in ends)
    grade, source = plan.grade_and_source(answer, name)
    return {
        "value": value,
        "low": low,
        "high": high,
        "text": shown(name, value),
        "interval": interval(name, *ends),
        "grade": grade,
        "source": f"{capital(NUMBERS[name].meaning)}. {source}".strip(),
    }


def summary_rows(plan: Plan) -> list[dict[str, str]]:
    """A row for each candidate with the first screen's numbers, as texts; the best has a star."""
    rows = []
    for answer in plan.answers:
        names = " = ".join((answer.name, *answer.also))
        row = {"network": f"{names} *" if answer is plan.best and plan.met else names}
        for name in first_numbers(plan):
            has_number = answer.design is not None and name in answer.numbers
            row[NUMBERS[name].label] = shown(name, answer.numbers[name]) if has_number else "-"
        missed = ", ".join(missed_limits(answer, plan.spec.limits)) if answer.design else "not there"
        rows.append(row | {"misses": missed or "-"})
    return rows


def terminal_text(plan: Plan, draws: bool = False) -> str:
    """The plan for a terminal: the answer, the table, what blocks and flips, and why some networks are not there."""
    texts = [plan.spec.title] if plan.spec.title else []
    texts += [
        headline(plan, draws),
        *error_texts(plan),
        "",
        *([aligned_table(summary_rows(plan)).rstrip(), ""] if plan.possible else []),
        *(text for run in _run_texts(plan) for text in (run, "")),
    ]
    if plan.best is not None:
        texts += [
            aligned_table(pd.DataFrame(neighbour_columns(plan.case, plan.neighbours)).to_dict("records")).rstrip(),
            "",
        ]
    texts += [f"- {verdict['text']}" for verdict in verdicts(plan, draws)]
    texts += [f"- {note}" for note in missing_notes(plan)]
    texts += [f"- {answer.why_same}" for answer in plan.answers if answer.also]
    texts.append(f"- {server_price(plan.case)}")
    if plan.best is not None:
        texts.append(f"- Best strategy: {plan.best.label}.")
        for row in plan.own_strategy.head(1).itertuples():
            times = f"{show(row.iteration_s, 's', 4)}, {number(row.over_best, 3)} times the best for each sequence"
            limit = limit_text(row.limit, row.memory_bytes, plan.case.machine)
            texts.append(f"- {own_mapping(plan)}, on {row.candidate}: {times}; {limit}.")
    of_site = plan.site.warnings if plan.site else ()
    texts += [f"- {text}" for text in (*plan.case.warnings, *plan.case.run_warnings, *of_site)]
    texts += [
        f"- {plan.case.model.name} has {model_text(plan)}.",
        f"- {plan.case.links_text}",
        f"- {boundary(plan.case)}",
    ]
    return "\n".join(texts)


def _run_texts(plan: Plan) -> list[str]:
    """Speed, energy and cost of a GPU-hour of the best network, in a line; none without a strategy."""
    best = plan.best
    if best is None:
        return []
    numbers = best.numbers
    tokens = numbers["batch"] * plan.case.model.sequence_length / numbers["iteration_s"] / numbers["gpus_used"]
    texts = [f"{shown('iteration_s', numbers['iteration_s'])} an iteration", f"MFU {shown('mfu', numbers['mfu'], 3)}"]
    texts += [f"{number(tokens, 3)} tokens/s a GPU", f"{shown('energy_J', numbers['energy_J'])} for the training"]
    return [f"{capital(best.name)}: {', '.join(texts)}, {cost_text(plan.case, best)}."]


def markdown_text(plans: Sequence[Plan], documents: Sequence[Mapping[str, Any]]) -> str:
    """Plans and their documents as Markdown: the answer and table of each, then its sections' tables."""
    texts = []
    for plan, content in zip(plans, documents, strict=True):
        title, answer = markdown_words(content["title"]), markdown_words(content["headline"])
        texts += [f"# {title}\n", f"{answer}\n", markdown_table(summary_rows(plan))]
        told = [*content["rests_on"], *(verdict["text"] for verdict in content["verdicts"])]
        texts += [*(f"- {markdown_words(text)}" for text in told), ""]
        for section in content["sections"]:
            texts += [f"## {markdown_words(section['title'])}\n", f"{markdown_words(section['lead'])}\n"]
            for table in section["tables"]:
                cells = [[cell["text"] if isinstance(cell, dict) else cell for cell in row] for row in table["rows"]]
                rows = [dict(zip(table["head"], row, strict=True)) for row in cells]
                texts += [f"{markdown_words(table['caption'])}\n", markdown_table(rows)]
            texts += [*(f"- {markdown_words(note)}" for note in section["notes"]), ""]
    return "\n".join(texts)
