"""What a decision hangs on: risks with their numbers, and what to do next."""

import math

import pandas as pd

from railcore import catalog
from railcore.catalog.units import counted, number, words
from railcore.planner.choice import missed_limits
from railcore.planner.result import Plan
from railcore.planner.sections import row_value, row_words
from railcore.planner.shown_numbers import NUMBERS, interval, shown
from railcore.planner.site_texts import site_risk, site_step

_PRICES = ("prices", "platforms")  # families of the catalog that quotes answer


def risks(plan: Plan, draws: bool) -> list[str]:
    """Risks of the best network: that it takes longer, another is better, more fails, and what its site rests on.

    plan: that has a best network. draws: whether ties and the interval of the purchase are known.
    """
    return [*filter(None, (_time_risk(plan, draws), _choice_risk(plan, draws), _failure_risk(plan), site_risk(plan)))]


def _time_risk(plan: Plan, draws: bool) -> str:
    """How long it may take, over the model's days and the limit."""
    assert plan.best is not None
    limits_given = any(value is not None for value in plan.spec.limits.model_dump().values())
    high, days, limit = plan.days_interval[1], plan.best.numbers["days"], plan.spec.limits.days
    if not math.isfinite(high):
        cause = "the strategy does not fit, or so much fails that the training never ends"
        return f"Time: in one case of twenty or more {cause}."
    over = f", over the limit of {shown('days', limit)}" if limit and high > limit else ""
    text = f"Time: one case in twenty takes more than {shown('days', high, 3)}, not {shown('days', days)}{over}."
    if draws and limits_given and plan.uncertainty is not None:
        met = plan.uncertainty.met(plan.best.name)
        text += f" All limits are met in {number(100 * met, 2)}% of the draws."
    error = plan.expected_error
    if error.runs and error.largest < plan.best.numbers["gpus_used"]:
        text += f" The largest published run like it has {counted(int(error.largest), 'GPUs')}."
    return text


def _choice_risk(plan: Plan, draws: bool) -> str:
    """What makes another network the best."""
    if draws and plan.ties and plan.uncertainty is not None:
        shares = ((name, plan.uncertainty.better(name, plan.rank)) for name in plan.ties)
        told = " and ".join(f"{name} in {number(100 * share, 2)}%" for name, share in shares)
        return f"Network: a tie by {NUMBERS[plan.rank].label}. In the draws another is better: {told}."
    if plan.flips.empty:
        return "Network: no single price, power or rate within its range makes another one the best."
    row = plan.flips.iloc[0]
    best = "none meets the limits" if row["best"] == "none" else f"{row['best']} is best"
    return f"Network: with {row_words(row)} of {row_value(row, 'at')} (now {row_value(row, 'value')}), {best}."


def _failure_risk(plan: Plan) -> str:
    """The failure rate that goodput hangs on most."""
    assert plan.best is not None
    if not (widest := plan.situation.widest(plan.best, 1)):  # the spec chose an end of the failure rates
        return ""
    row, low, high = widest[0]
    ends = f"{number(100 * low, 3)} to {number(100 * high, 3)}%"
    now = shown("goodput", plan.best.numbers["goodput"])
    return f"Failures: the {_failure_words(row)} alone moves goodput from {ends} (now {now})."


def _failure_words(row: catalog.Value) -> str:
    """A row of failures in words: "failure rate of a GPU"."""
    return words(row.parameter) if row.name == "job" else f"{words(row.parameter)} of a {row.name}"


def next_steps(plan: Plan) -> list[str]:
    """What narrows or settles the answer, the most useful first: quotes, a row to ask for, a measured run, a site."""
    assert plan.best is not None
    best, case = plan.best, plan.case
    racks = counted(best.racks, case.rack.name) if best.racks == 1 else f"{number(best.racks, 9)} {case.rack.name}"
    parts = ((best.numbers["switches"], "switches"), (best.numbers["link_ends"], "ends of optical links"))
    network = " and ".join(counted(int(count), name) for count, name in parts)
    steps = [f"Get quotes for {racks}, {network}; the bill is below. Give them in [books]."]
    prices = _first_price(plan.flips)
    if prices is not None:
        steps.append(f"Ask first for the {row_words(prices)}: {row_value(prices, 'at')} changes the answer.")
    if case.measured_runs.empty:
        days = interval("days", *plan.days_interval)
        steps.append(f"Time some iterations on a few racks and give them as [[measured]]: that narrows {days}.")
    for row, *_ in plan.situation.widest(best, 1):
        steps.append(f"Ask who runs such a cluster for its {_failure_words(row)}, and give it in [operation].")
    steps.append(site_step(plan))
    if missed_limits(best, plan.spec.limits):
        steps.insert(0, "Relax a limit, or change the size: as it is, no network meets them.")
    return steps


def _first_price(flips: pd.DataFrame) -> pd.Series | None:
    """The first row of flips that a quote answers."""
    prices = flips[flips["family"].isin(_PRICES)] if len(flips) else flips
    return None if prices.empty else prices.iloc[0]
