"""One device's forward and backward pass with the gradient exchange beneath it, chunk by chunk on three networks.

Gradients are cut into n chunks; each passes the five steps, of which 1 and 5 share the scale-up network, 2 and 4 the
scale-out network, and 3 has the wide area to itself, whose delay keeps no link busy. A link carries one chunk's step
at a time. Symbols as in `exposed`: F, B, T, P and x1 to x5; d the delays of step 3, w = x3 - d what it carries.
Source: flops2024, section 4.1 and Fig. 2. They say that the steps are pipelined. They do not say when chunks become
ready, nor what must end with the backward pass: both are parameters here. A GPU holds one layer: a forward pass that
does not wait for the whole exchange computes with weights that lack it.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.arguments import Listed, NonNegativeInt, Share, checked
from railcore.datacenter.exposed import LayerTimes
from railcore.datacenter.sizing import DatacenterSite
from suite.flops2024.training_case import TrainingCase

GRADIENT_EXCHANGE_STEPS = ("scale-up reduce", "scale-out reduce", "wide area", "scale-out gather", "scale-up gather")
_NETWORK_LANES = ("scale-up", "scale-out", "wide area")
_LANE_OF_STEP = (0, 1, 2, 1, 0)
_COUNTED = {"each network": "if steps 1 to 3 start with backward"}  # the rule in words
_ROUNDING = 1 + 1e-12  # events so close are at once: sums of the same times in another order differ in the last bit
TIMELINE_ASSUMPTIONS: tuple[dict, ...] = (  # options of `timeline` that no source decides
    {"due": 5},  # gradients all there at the start; the whole exchange ends with the backward pass
    {"due": 3},  # the same, AllGathers under the next forward pass
    {"due": 2},  # the same, delay and AllGathers under the next forward pass
    {"due": 3, "spread": 1.0},  # gradients as the backward pass goes on
    {"due": 3, "spread": 1.0, "shared": True},  # the same, links shared with T and P
)


@dataclass(frozen=True)
class Timeline:
    """Timed events of a forward pass, a backward pass and what follows, with time 0 at its start.

    passes: lane, event, start and end of the passes and their traffic.
    steps: chunk, step, start and end of the exchange.
    delay_s: d.
    backward_end_s: end of the backward pass.
    due_s: when the steps that hold up the next pass end.
    end_s: of the exchange.
    next_s: length of the next forward pass.
    times: of the layer.
    """

    passes: list[tuple[str, str, float, float]]
    steps: list[tuple[int, int, float, float]]
    delay_s: float
    backward_end_s: float
    due_s: float
    end_s: float
    next_s: float
    times: LayerTimes

    @cached_property
    def events(self) -> pd.DataFrame:
        """Columns lane, event, chunk (-1 for a pass), start_s, end_s, in the order of time."""
        rows: list = [(lane, event, -1, start, end) for lane, event, start, end in self.passes]
        for chunk, step, start, end in self.steps:
            rows.append((_NETWORK_LANES[_LANE_OF_STEP[step]], GRADIENT_EXCHANGE_STEPS[step], chunk, start, end))
            if step == 2 and self.delay_s:
                rows.append((_NETWORK_LANES[2], "propagation", chunk, end, end + self.delay_s))
        table = pd.DataFrame(rows, columns=["lane", "event", "chunk", "start_s", "end_s"])
        nine = partial(units.significant, digits=9)  # events at once stay in this order
        return table.sort_values(["start_s", "chunk"], key=lambda c: c.map(nine), kind="stable", ignore_index=True)

    @property
    def durations_s(self) -> dict[str, float]:
        """Time of each event in all [s]: of a pass, of its traffic, of each step over all chunks, of the delay."""
        t, steps = self.times, [float(x) for x in self.times.steps_s]
        steps[2] -= self.delay_s
        passes = {"forward": t.forward_s, "backward": t.backward_s, "tensor": t.tensor_s, "pipeline": t.pipeline_s}
        lasting = {name: float(time_s) for name, time_s in passes.items()}
        return lasting | dict(zip(GRADIENT_EXCHANGE_STEPS, steps, strict=True)) | {"propagation": self.delay_s}

    @property
    def exchange_s(self) -> float:
        """Exposed time of the exchange [s]: until it is due, and what the next forward pass does not hide."""
        waits = max(0.0, self.due_s - self.backward_end_s)
        return waits + max(0.0, self.end_s - self.backward_end_s - waits - self.next_s)

    @property
    def share(self) -> float:
        """Exposed share: (2 T + 2 P + exchange) / (F + B + the same)."""
        exposed = 2 * float(self.times.tensor_s + self.times.pipeline_s) + self.exchange_s
        return exposed / (float(self.times.forward_s + self.times.backward_s) + exposed)


@checked
def timeline(
    times: LayerTimes,
    site: DatacenterSite,
    chunks: Listed = 16,
    spread: Share = 0.0,
    due: NonNegativeInt = 3,
    shared: bool = False,
) -> Timeline:
    """The pipelined exchange of one micro-batch's gradients as timed events, one device in steady state.

    Steps after the one that is due may run under the next forward pass. What that pass leaves of them is exposed, so
    that no exchange meets the next one.

    Parameters
    ----------
    times, site
        Of a layer and its machine; experts are in the tensor group.
    chunks
        Of the gradients, n.
    spread
        Chunk i of 1 to n is ready when the share spread i / n of the backward pass is computed. 0: all are ready when
        it starts, those of the pass before. 1: evenly as it goes on.
    due
        Last step that must end before the next forward pass: 5 for all, 3 for the reductions, 2 where the delay may
        pass under it as well.
    shared
        Tensor and pipeline traffic stops the exchange on its network while it lasts.

    Returns
    -------
    A `Timeline`.

    Raises
    ------
    ValueError
        Naming the argument out of range.
    """
    work, delay_s = _busy_and_delay_s(times, site)
    passes = _passes(times, 0.0)
    backward_end = passes[-1][3]
    (start, middle), (_, end) = ((a, b) for _, event, a, b in passes if event == "backward")
    ready = np.interp(spread * np.arange(1, chunks + 1) / chunks, (0, 0.5, 1), (start, middle, end))
    done = _served(ready, np.asarray(work) / chunks, delay_s, _stops(passes, shared))
    due_s = max(end + delay_s * (step == 2) for _, step, _, end in done if step < due)
    following = _passes(times, max(backward_end, due_s))[:5]
    if shared:  # the next pass cannot start before what is due has ended, so that its traffic moves nothing of that
        done = _served(ready, np.asarray(work) / chunks, delay_s, _stops([*passes, *following], shared))
    return Timeline(
        passes=[*passes, *following],
        steps=done,
        delay_s=delay_s,
        backward_end_s=backward_end,
        due_s=due_s,
        end_s=max(end for *_, end in done),
        next_s=following[-1][3] - following[0][2],
        times=times,
    )


def _busy_and_delay_s(times: LayerTimes, site: DatacenterSite) -> tuple[tuple[float, ...], float]:
    """Time for which each step keeps its link busy, and delay of the wide area [s]: x3 = w + d."""
    wide_s = float(times.steps_bytes[2] / site.wan_Bps)
    busy = [wide_s if step == 2 else float(x) for step, x in enumerate(times.steps_s)]
    return tuple(busy), max(0.0, float(times.steps_s[2]) - wide_s)


def titled_timelines(
    cases: Mapping[str, TrainingCase], document: Mapping[str, str] | None = None, **options
) -> dict[str, tuple[str, Timeline]]:
    """Timelines of cases with titles that give their exposed share, here and by rule.

    document: the document's share in words, by case. options: of `timeline`.
    """
    timelines, shares = {}, document or {}
    for name, case in cases.items():
        view = timeline(case.times, case.site, **options)
        size = f"{units.number(case.model.total_parameters / 1e12, 3)}T parameters"
        beside = f" (document: {shares[name]})" if name in shares else ""
        drawn, by_rule = (f"{units.number(100 * share, 3)}%" for share in (view.share, float(case.share)))
        counted = _COUNTED.get(case.rule, f"by the rule '{case.rule}'")
        timelines[name] = f"{name}, {size}: {drawn} is exposed; {by_rule}{beside} {counted}", view
    return timelines


def _passes(times: LayerTimes, start: float) -> list[tuple[str, str, float, float]]:
    """Lane, event, start and end of a forward pass (five events) and a backward pass; networks wait for computes."""
    passes = []
    for name, compute in (("forward", times.forward_s), ("backward", times.backward_s)):
        halves = [("GPU", name, compute / 2), ("scale-up", "tensor", times.tensor_s / 2)] * 2
        for lane, event, lasts in (*halves, ("scale-out", "pipeline", times.pipeline_s)):
            passes.append((lane, event, start, start + float(lasts)))
            start = passes[-1][3]
    return passes


def _stops(passes: list, shared: bool) -> list[list[tuple[float, float]]]:
    """Times in which each network carries the passes' own traffic."""
    return [[(a, b) for lane, _, a, b in passes if shared and lane == network] for network in _NETWORK_LANES]


def _served(ready, work, delay_s: float, stops: list) -> list[tuple[int, int, float, float]]:
    """Chunk, step, start and end of every step; a link serves one at a time, without preemption.

    A free link takes reductions before gathers.
    """
    coming = [(float(at), chunk, 0) for chunk, at in enumerate(ready)]
    heapq.heapify(coming)
    waiting: list[list] = [[] for _ in _NETWORK_LANES]
    free, done = [0.0] * len(_NETWORK_LANES), []
    while coming:
        now = coming[0][0]
        soon = now * _ROUNDING
        while coming and coming[0][0] <= soon:
            _, chunk, step = heapq.heappop(coming)
            if step < len(work):
                heapq.heappush(waiting[_LANE_OF_STEP[step]], (step, now, chunk))
        for network, queue in enumerate(waiting):
            if queue and free[network] <= soon:
                step, _, chunk = heapq.heappop(queue)
                end = _end(now, work[step], stops[network])
                free[network] = end
                done.append((chunk, step, now, end))
                heapq.heappush(coming, (end + delay_s * (step == 2), chunk, step + 1))
                heapq.heappush(coming, (end, chunk, len(work)))  # wakes the link
    return done


def _end(now: float, work: float, stops: list[tuple[float, float]]) -> float:
    """When a link finishes work that starts now, pauses included."""
    end = now + work
    for start, stop in stops:
        if stop > now and start < end:
            end += stop - max(start, now)
    return end
