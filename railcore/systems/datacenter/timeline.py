"""One device's forward and backward pass with the gradient exchange beneath it, chunk by chunk on three networks.

Gradients are cut into n chunks; each passes the five steps, of which 1 and 5 share the scale-up network, 2 and 4 the
scale-out network, and 3 has the wide area to itself, whose delay keeps no link busy. A link carries one chunk's step
at a time. Symbols as in `exposed`: F, B, T, P and x1 to x5; d the delays of step 3, w = x3 - d what it carries.
Source: flops2024, section 4.1 and Fig. 2, which say that the steps are pipelined and not when chunks become ready, nor
what must end with the backward pass: both are parameters here. A GPU holds one layer, so that a forward pass which does
not wait for the whole exchange computes with weights that lack it.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts import units
from railcore.systems.datacenter.exposed import STEPS, Times
from railcore.systems.datacenter.scenario import Case
from railcore.systems.datacenter.site import Site

if TYPE_CHECKING:
    import pandas as pd

NETWORKS = ("scale-up", "scale-out", "wide area")
CARRIED_BY = (0, 1, 2, 1, 0)  # network of each step
ORDERS = ("first come", "reduce first", "finish first")
SAME = 1 + 1e-12  # what comes so soon comes at once: sums of the same times in another order differ in the last bit
# What the networks do, and the rule of `exposed.RULES` that it approaches with many chunks and no delay.
READINGS: dict[str, tuple[dict, str]] = {
    "all there at the start; the whole exchange ends with the backward pass": ({"due": 5}, "busiest network"),
    "all there at the start; AllGathers under the next forward pass": ({"due": 3}, "gathers under forward"),
    "all there at the start; delay and AllGathers under the next forward pass": ({"due": 2}, ""),
    "as the backward pass goes on; AllGathers under the next forward pass": ({"due": 3, "spread": 1.0}, ""),
    "as the backward pass goes on, links shared with T and P; AllGathers under the next forward pass": (
        {"due": 3, "spread": 1.0, "shared": True},
        "",
    ),
}


@dataclass(frozen=True)
class Timeline:
    """Timed events of a forward pass, a backward pass and what follows, with time 0 at its start.

    events: columns lane, event, chunk (-1 for a pass), start_s, end_s. backward_end_s: end of the backward pass;
    due_s: when the steps that hold up the next pass end; end_s: of the exchange. next_s: length of the next forward
    pass. times: of the layer.
    """

    events: "pd.DataFrame"
    backward_end_s: float
    due_s: float
    end_s: float
    next_s: float
    times: Times

    @property
    def exchange_s(self) -> float:
        """Time of the exchange that nothing hides [s]: until it is due, and what the next forward pass leaves."""
        waits = max(0.0, self.due_s - self.backward_end_s)
        return waits + max(0.0, self.end_s - self.backward_end_s - waits - self.next_s)

    @property
    def share(self) -> float:
        """Exposed share: (2 T + 2 P + exchange) / (F + B + the same)."""
        exposed = 2 * float(self.times.tensor_s + self.times.pipeline_s) + self.exchange_s
        return exposed / (float(self.times.forward_s + self.times.backward_s) + exposed)


def timeline(
    times: Times,
    site: Site,
    chunks: int = 16,
    spread: float = 0.0,
    due: int = 3,
    order: str = "reduce first",
    shared: bool = False,
) -> Timeline:
    """The pipelined exchange of one micro-batch's gradients as timed events, one device in steady state.

    chunks n. spread: chunk i of 1 to n is ready when spread i / n of the backward pass is computed: 0, all there when
    it starts (those of the pass before); 1, evenly as it goes on. due: the last step that must end before the next
    forward pass, 5 for all, 3 for the reductions, 2 where the delay may pass under it as well; the other steps may run
    under that pass, and what it leaves of them is exposed, so that no exchange meets the next. order: which waiting
    step a free link takes, the first that came, or reductions before gathers, or the reverse. shared: tensor and
    pipeline traffic stops the exchange on its network while it lasts.
    Raises ValueError naming the argument out of range.
    """
    if not (isinstance(chunks, int | np.integer) and chunks >= 1):
        raise ValueError(f"chunks is {chunks!r}: give a whole number from 1 up")
    if not 0 <= spread <= 1:
        raise ValueError(f"spread is {spread!r}: give 0 to 1 of the backward pass")
    if due not in (2, 3, 5) or order not in ORDERS:
        raise ValueError(f"due is {due!r} and order {order!r}: give 2, 3 or 5 and one of {', '.join(ORDERS)}")
    work, delay_s = carried(times, site)
    passes = _passes(times, 0.0)
    backward_end = passes[-1][3]
    progress = spread * np.arange(1, chunks + 1) / chunks
    ready = np.interp(progress * float(times.backward_s), *_progress(passes))
    done = _served(ready, np.asarray(work) / chunks, delay_s, order, _stops(passes, shared))
    due_s = max(end + delay_s * (step == 2) for _, step, _, end in done if step < due)
    following = _passes(times, max(backward_end, due_s))[:5]
    if shared:  # the next pass cannot start before what is due has ended, so that its traffic moves nothing of that
        done = _served(ready, np.asarray(work) / chunks, delay_s, order, _stops([*passes, *following], shared))
    return Timeline(
        events=_table([*passes, *following], done, delay_s),
        backward_end_s=backward_end,
        due_s=due_s,
        end_s=max(end for *_, end in done),
        next_s=following[-1][3] - following[0][2],
        times=times,
    )


def carried(times: Times, site: Site) -> tuple[tuple[float, ...], float]:
    """Seconds that each step keeps its link busy, and delay of the wide area [s]: x3 = w + d."""
    wide_s = float(times.steps_bytes[2] / site.wan_Bps)
    busy = [wide_s if step == 2 else float(x) for step, x in enumerate(times.steps_s)]
    return tuple(busy), max(0.0, float(times.steps_s[2]) - wide_s)


def least_s(times: Times, site: Site) -> tuple[float, float]:
    """Least time of the reductions and of the whole exchange [s], gradients all there, networks alone, any chunks.

    max(x1, x2, w) + d, and the largest of that, x1 + x5 and x2 + x4; with reductions first many chunks come close
    where one network has most of the work. One chunk takes the sum of all steps.
    """
    (one, two, wide, four, five), delay = carried(times, site)
    reduced = max(one, two, wide) + delay
    return reduced, max(reduced, one + five, two + four)


def drawn(cases: Mapping[str, Case], **options: Any) -> tuple["pd.DataFrame", dict[str, Timeline]]:
    """Events of all cases (with a column panel), and their timelines by panel. options: of `timeline`."""
    import pandas as pd

    seen = {name: timeline(case.times, case.site, **options) for name, case in cases.items()}
    rules = {name: f"{float(case.share):.1%} by the rule '{case.rule}'" for name, case in cases.items()}
    panels = {f"{name}: {view.share:.1%} of the time exposed, {rules[name]}": view for name, view in seen.items()}
    return pd.concat([view.events.assign(panel=title) for title, view in panels.items()]), panels


def readings(cases: Mapping[str, Case], chunks: int = 256) -> "pd.DataFrame":
    """The exchange that is exposed under each of `READINGS`, beside the rule that ignores delay and chunks.

    Columns model, reading, exchange_exposed_s, exposed_share, rule, exposed_by_rule_s (empty where no rule has it).
    """
    import pandas as pd

    rows = []
    for model, case in cases.items():
        mine = case.times
        for name, (options, rule) in READINGS.items():
            seen = timeline(mine, case.site, chunks, **options)
            by_rule = float(mine.gradients_s(rule)) if rule else np.nan
            rows.append((model, name, seen.exchange_s, seen.share, rule or "none", by_rule))
    return pd.DataFrame(
        rows, columns=["model", "reading", "exchange_exposed_s", "exposed_share", "rule", "exposed_by_rule_s"]
    )


def by_chunks(cases: Mapping[str, Case], chunks: Sequence[int]) -> "pd.DataFrame":
    """When the exchange ends after the start of the backward pass, gradients all there, against the number of chunks.

    Columns model, chunks, a column for each of `ORDERS` (such as "first come_s"), lower_bound_s (`least_s`).
    """
    import pandas as pd

    rows = []
    for model, case in cases.items():
        mine = case.times
        starts = float(mine.forward_s + mine.tensor_s + mine.pipeline_s)
        for n in chunks:
            ends = {f"{order}_s": timeline(mine, case.site, n, 0.0, 5, order).end_s - starts for order in ORDERS}
            rows.append({"model": model, "chunks": n, **ends, "lower_bound_s": least_s(mine, case.site)[1]})
    return pd.DataFrame(rows)


def _passes(times: Times, start: float) -> list[tuple[str, str, float, float]]:
    """Lane, event, start and end of a forward pass (five events) and a backward pass; networks wait for computes."""
    found = []
    for name, compute in (("forward", times.forward_s), ("backward", times.backward_s)):
        halves = [("GPU", name, compute / 2), ("scale-up", "tensor", times.tensor_s / 2)] * 2
        for lane, event, lasts in (*halves, ("scale-out", "pipeline", times.pipeline_s)):
            found.append((lane, event, start, start + float(lasts)))
            start = found[-1][3]
    return found


def _progress(passes: list) -> tuple[list[float], list[float]]:
    """Seconds of the backward pass that are computed, and when, at the corners of that curve."""
    computed: list[float] = [0.0]
    when: list[float] = []
    for _, event, start, end in passes:
        if event == "backward":
            when += [start, end] if not when else [end]
            computed.append(computed[-1] + end - start)
    return computed, when


def _stops(passes: list, shared: bool) -> dict[int, list[tuple[float, float]]]:
    """Stretches in which a network belongs to the passes."""
    lanes = {network: [(a, b) for lane, _, a, b in passes if lane == name] for network, name in enumerate(NETWORKS)}
    return lanes if shared else {network: [] for network in lanes}


def _served(ready, work, delay_s: float, order: str, stops: Mapping[int, list]) -> list[tuple[int, int, float, float]]:
    """Chunk, step, start and end of every step, on links that serve one at a time and finish what they began."""
    coming = [(float(at), chunk, 0) for chunk, at in enumerate(ready)]
    heapq.heapify(coming)
    waiting: list[list] = [[] for _ in NETWORKS]
    free, done = [0.0] * len(NETWORKS), []
    while coming:
        now = coming[0][0]
        soon = now * SAME
        while coming and coming[0][0] <= soon:
            _, chunk, step = heapq.heappop(coming)
            if step < len(work):
                urgency = {"first come": now, "reduce first": step, "finish first": -step}[order]
                heapq.heappush(waiting[CARRIED_BY[step]], (urgency, now, chunk, step))
        for network, queue in enumerate(waiting):
            if queue and free[network] <= soon:
                *_, chunk, step = heapq.heappop(queue)
                end = _end(now, work[step], stops[network])
                free[network] = end
                done.append((chunk, step, now, end))
                heapq.heappush(coming, (end + delay_s * (step == 2), chunk, step + 1))
                heapq.heappush(coming, (end, chunk, len(work)))  # wakes the link
    return done


def _end(now: float, work: float, stops: list[tuple[float, float]]) -> float:
    """When a link has done its work that starts now, around the stretches in which it is stopped."""
    end = now + work
    for start, stop in stops:
        if stop > now and start < end:
            end += stop - max(start, now)
    return end


def _table(passes: list, done: list, delay_s: float) -> "pd.DataFrame":
    import pandas as pd

    rows: list = [(lane, event, -1, start, end) for lane, event, start, end in passes]
    for chunk, step, start, end in done:
        rows.append((NETWORKS[CARRIED_BY[step]], STEPS[step], chunk, start, end))
        if step == 2 and delay_s:
            rows.append((NETWORKS[2], "propagation", chunk, end, end + delay_s))
    table = pd.DataFrame(rows, columns=["lane", "event", "chunk", "start_s", "end_s"])
    nine = partial(units.significant, digits=9)  # events at once stay in this order
    return table.sort_values(["start_s", "chunk"], key=lambda c: c.map(nine), kind="stable", ignore_index=True)
