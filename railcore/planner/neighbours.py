"""What is near a plan: one rack less and more, a batch that divides better, sizes at which the network jumps.

Rows next to the plan are searched whole; prices are those of the parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from railcore.catalog.units import number, show
from railcore.network.topology.rails import RailFabric
from railcore.planner import shown_numbers
from railcore.planner.answer import Answer, Designs, answer_of, sized_answer
from railcore.planner.candidates import Candidate
from railcore.planner.case import Case
from railcore.planner.find import last
from railcore.planner.goals import NO_DIFFERENCE
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search

NUMBERS = ("racks", "gpus", "gpus_used", "batch", "days", "network_usd", "purchase_usd", "cost_usd")
_NEAR = 1.25  # times the racks, and a part of them, within which jumps are told
_OF_PURCHASE, _OF_NETWORK = 0.02, 0.2  # shares that a jump of the price must be of the purchase or of the network
_TOLD = 2  # jumps
_MOST_RACKS = 2**17  # on which a job that does not fit is tried
_IDLE_MFU = 0.3  # above it half of the GPUs are never nearly as fast
_STILL = 0.7  # share of the speed that the fewest GPUs that are told have
_ORDINALS = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_BETTER = "batch that divides better"
_HOST = 8  # GPUs of a server, more of which are a rack


def rack_word(case: Case) -> str:
    """What the platform's unit is called."""
    return "rack" if case.rack_gpus > _HOST else "server"


def neighbours(case: Case, candidate: Candidate, best: Answer) -> pd.DataFrame:
    """Sizes and batches next to a plan's.

    Parameters
    ----------
    case
        Of the plan.
    candidate, best
        Its best network, and that one's answer.

    Returns
    -------
    Columns what, those of NUMBERS; the plan itself first. Each size is searched whole.
    """
    word, plan = rack_word(case), {name: best.numbers.get(name) for name in NUMBERS} | {"racks": best.racks}
    rows: list[dict[str, Any] | None] = [{"what": "this plan", **plan}]
    for what, racks in ((f"one {word} less", best.racks - 1), (f"one {word} more", best.racks + 1)):
        rows.append(_row(what, case, candidate, best, racks))
    if isinstance(case.batch, int):
        rows.append(_with_better_batch(replace(case, batch=float(case.batch)), candidate, best, _short_s(case, best)))
    fewer, more = _jumps(case, candidate, best.racks)
    if fewer and fewer < best.racks:
        rows.append(_row("largest size with a tier less", case, candidate, best, fewer))
    if more and more > best.racks + 1:
        rows.append(_row("next size with another tier", case, candidate, best, more))
    return pd.DataFrame([row for row in rows if row], columns=["what", *NUMBERS])


def _short_s(case: Case, best: Answer) -> float:
    """Time of a sequence of the best strategy's GPUs and batch by the short search [s]."""
    sizes = case.counts(int(best.numbers["gpus"]) - (case.spec.operation.spares or 0))
    same = (sizes["gpus"] == best.numbers["gpus_used"]) & (sizes["global_batch"] == best.numbers["batch"])
    return float((sizes[same] if same.any() else sizes)["sequence_s"].min())


def _row(what: str, case: Case, candidate: Candidate, best: Answer, racks: int) -> dict[str, Any] | None:
    """A row of `neighbours` by a whole search; None where there is no such network, or its goodput is 0.

    Its days and cost are the plan's in proportion to the time of a token, and the cost also to the purchase.

    Parameters
    ----------
    what
        In words.
    case, candidate, best
        As for `neighbours`.
    racks
        Of the row.

    Returns
    -------
    The row.
    """
    other = answer_of(case, candidate, Designs(case), racks).numbers if racks else {}
    if not (other.get("goodput") and best.numbers["goodput"]):
        return None
    token_s, plan_token_s = (each["iteration_s"] / each["batch"] / each["goodput"] for each in (other, best.numbers))
    slower = token_s / plan_token_s
    numbers = {name: other.get(name) for name in NUMBERS} | {"racks": racks, "days": slower * best.numbers["days"]}
    numbers["cost_usd"] = best.numbers["cost_usd"] * slower * other["purchase_usd"] / best.numbers["purchase_usd"]
    return {"what": what, **numbers}


def _with_better_batch(case: Case, candidate: Candidate, best: Answer, short_s: float) -> dict[str, Any] | None:
    """The row of another batch; None where it is no faster, which a short search tells first.

    Parameters
    ----------
    case
        Whose batch may be any near the asked one.
    candidate, best
        As for `neighbours`.
    short_s
        Time of a sequence with the asked batch by the short search [s].

    Returns
    -------
    The row.
    """
    sizes = case.sizes(int(best.numbers["gpus"]) - (case.spec.operation.spares or 0))
    if sizes["sequence_s"].min() > (1 - NO_DIFFERENCE) * short_s:
        return None
    row = _row(_BETTER, case, candidate, best, best.racks)
    return row if row and row["days"] <= (1 - NO_DIFFERENCE) * best.numbers["days"] else None


def neighbour_columns(case: Case, table: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of texts by their head. table: of `neighbours`."""
    columns = {"size": list(table["what"]), f"{rack_word(case)}s": [number(value, 9) for value in table["racks"]]}
    names = {"gpus": "GPUs", "gpus_used": "used", "batch": "batch"}
    columns |= {label: [number(value, 9) for value in table[name]] for name, label in names.items()}
    shown_names = ("days", "network_usd", "purchase_usd", "cost_usd")
    return columns | {
        shown_numbers.NUMBERS[name].label: [shown_numbers.shown(name, value) for value in table[name]]
        for name in shown_names
    }


def better_batch_text(case: Case, table: pd.DataFrame) -> str:
    """How much faster a batch near the asked whole number is; else "". table: of `neighbours`."""
    rows = table[table["what"] == _BETTER]
    if rows.empty:
        return ""
    row, less = rows.iloc[0], 1 - float(rows["days"].iloc[0]) / float(table["days"].iloc[0])
    asked = f"The batch of {number(case.batch, 9)} sequences divides badly"
    return f"{asked}: with {number(row['batch'], 9)} as many tokens take {number(100 * less, 2)}% less."


def _jumps(case: Case, candidate: Candidate, racks: int) -> tuple[int, int]:
    """The most racks with fewer tiers than so many have, and the fewest with more; 0 where none is within _NEAR."""

    def tiers(count: int) -> int:
        try:
            return int(getattr(candidate.build(count * case.rack_gpus), "tiers", 1))
        except ValueError:
            return 0  # there is none

    here, low, high = tiers(racks), math.floor(racks / _NEAR), math.ceil(racks * _NEAR)
    fewer = last(lambda count: tiers(count) < here, low, racks) if low and 0 < tiers(low) < here else 0
    more = last(lambda count: tiers(count) <= here, racks, high) + 1 if tiers(high) > here else 0
    return fewer, more


def cliffs(case: Case, candidates: Mapping[str, Candidate], answers: Sequence[Answer]) -> list[str]:
    """Sizes near the plan's at which a network has another tier and its price jumps; two at most, the best's first.

    Parameters
    ----------
    case, candidates
        Of the plan.
    answers
        With a strategy, the best first.

    Returns
    -------
    Sentences. A jump is told where it is over 2% of the purchase and over 20% of the network.
    """
    told = []
    for place, answer in enumerate(answers):
        fewer, more = _jumps(case, candidates[answer.name], answer.racks)
        for racks in filter(None, (fewer and fewer + 1, more)):
            before, after = (sized_answer(case, candidates[answer.name], count) for count in (racks - 1, racks))
            if not (before.numbers and after.numbers):
                continue
            prices = [sized.numbers["network_usd"] for sized in (before, after)]
            jump = prices[1] - prices[0]
            matters = jump > _OF_NETWORK * prices[0] and jump > _OF_PURCHASE * before.numbers["purchase_usd"]
            if matters:
                told.append((place > 0, -round(jump), _cliff_text(case, answer, after, jump)))
    return [text for *_, text in sorted(told)[:_TOLD]]


def _cliff_text(case: Case, answer: Answer, after: Answer, jump_usd: float) -> str:
    word, asked, gpus = rack_word(case), case.spec.cluster.gpus, int(after.numbers["gpus"])
    tier = _ORDINALS.get(int(getattr(after.fabric, "tiers", 1)), "further")
    rounded = asked and after.racks == answer.racks and asked < gpus
    whole = f"{asked:,} GPUs are {gpus:,} in whole {word}s. " if rounded else ""
    verb = "need" if _by_ports(after) else "are built in the vendor's scalable units, with"
    needs = f"{after.racks:,} {word}s ({gpus:,} GPUs) {verb} a {tier} tier of switches: +{show(jump_usd, 'USD', 3)}"
    not_before = f"{after.racks - 1:,} {word}s {'do' if verb == 'need' else 'are'} not."
    return f"{answer.name[:1].upper()}{answer.name[1:]}: {whole}{needs}; {not_before}"


def _by_ports(answer: Answer) -> bool:
    """Whether ports of its switches ask for as many tiers; else the units do of which a vendor builds its network."""
    fabric = answer.fabric
    return not isinstance(fabric, RailFabric) or replace(fabric, fan_in=()).tiers == fabric.tiers


def fewest_that_fit(case: Case, racks: int) -> str:
    """That a job does not fit, with the fewest GPUs and a mapping that do, in a sentence.

    racks: on which nothing fits. The fewest are found by doubling, then halving the interval, over whole racks.
    """
    at, name = f"{racks * case.rack_gpus:,} {case.machine.gpu}", case.model.name
    high = 2 * racks
    while case.counts(high * case.rack_gpus).empty:
        if high > min(_MOST_RACKS, case.most_racks):
            remedy = "give a batch that divides, or a larger GPU"
            return "" if case.spec.job.search else f"{name} does not fit on {at}, nor on any number of them: {remedy}"
        high *= 2
    fewest = last(lambda count: case.counts(count * case.rack_gpus).empty, high // 2, high) + 1
    row = case.counts(fewest * case.rack_gpus).iloc[0]
    gpus, batch = int(row["gpus"]), int(row["global_batch"])
    machine = case.machine.changed(hb_domain_size=min(int(row["hb_domain_size"]), gpus))
    options: dict[str, Any] = {"runtime": case.runtime, "offload": case.spec.job.offload, **case.spec.job.search}
    best = search(case.model, machine, gpus, batch, top=1, only_best=True, **options).strategy()
    return f"{name} does not fit on {at}: the fewest is {fewest * case.rack_gpus:,} GPUs, with {strategy_label(best)}"


def too_many_text(case: Case, best: Answer) -> str:
    """That a job is too small for its GPUs; else "".

    It is where half of the GPUs or fewer are at least 70% as fast, by the short search; told is the fewest, by halves.
    An MFU of 30% or more, over all GPUs that are bought, is not looked into.
    """
    count = int(best.numbers["gpus"])
    mfu = best.numbers["mfu"] * best.numbers["gpus_used"] / count
    if mfu >= _IDLE_MFU:
        return ""
    whole_s, fast, gpus = _short_s(case, best), 1.0, count

    def speed(count: int) -> float:
        sizes = case.sizes(count)
        return 0.0 if sizes.empty else whole_s / float(sizes["sequence_s"].min())

    while count >= 2 * case.rack_gpus and (slower := speed(count // 2)) >= _STILL:
        count, fast = count // 2, slower
    if count == gpus:
        return ""
    few = f"{count:,} are {number(100 * fast, 2)}% as fast"
    peak = f"each GPU does {number(100 * mfu, 2)}% of its peak"
    return f"{case.model.name} is small for {gpus:,} GPUs: {few}; {peak}."
