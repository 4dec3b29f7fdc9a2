"""What changes of circuits add to an iteration, in closed form: arithmetic of one strategy or of arrays.

Symbols: p stages of v chunks with L layers each, V = p v; m micro-batches; d time of a change of circuits; f and b
forward and backward pass of a layer; g and r gather of its weights and sum of its gradients; h a hop to the next stage.

A pass of a chunk lies between two hops, which need other circuits than its exchanges. Within a pass, exchanges on k > 1
rings in turn change circuits k times a layer.

Source: photonic2025, sections 3.1 and 4.2 (phases of a pipeline, changes that windows hide).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from railcore.training.rank_order import GroupLevels

RINGS = ("context", "replica", "expert", "expert_replica")  # kinds of groups that a stage's rings join


class Rings(NamedTuple):
    """Which rings of a stage are on the rails, and how many different sets of circuits they need: arrays of one shape.

    context, expert: whether context and expert ranks are on the rails.
    kinds: sets of all rings.
    shared: sets of the context and data ranks. routed: with the data ranks of the experts.
    pair: sets of the data ranks in a mixture layer; 2 where experts have data ranks of their own.
    apart: whether expert ranks have another set than the data ranks.
    beside_data: whether context or expert ranks have another set than the data ranks.
    """

    context: Any
    expert: Any
    kinds: Any
    shared: Any
    routed: Any
    pair: Any
    apart: Any
    beside_data: Any

    @classmethod
    def of(cls, groups: Mapping[str, GroupLevels], hb_domain_size: int) -> "Rings":
        """Of groups of ranks in HB domains."""
        joined = {kind: rail_ring(groups[kind], hb_domain_size) for kind in RINGS}
        on_rails = {kind: np.maximum(ring[0], ring[2]) > 1 for kind, ring in joined.items()}

        def new(kind: str, *others: str) -> Any:
            """Whether a kind has circuits that none of the others has."""
            different = on_rails[kind]
            for other in others:
                different = different & (joined[kind] != joined[other]).any(axis=0)
            return different

        def count(*kinds: str) -> Any:
            return sum(1 * new(kind, *kinds[:place]) for place, kind in enumerate(kinds))

        apart = new("expert", "replica")
        return cls(
            context=on_rails["context"],
            expert=on_rails["expert"],
            kinds=count(*RINGS),
            shared=count("context", "replica"),
            routed=count("context", "replica", "expert_replica"),
            pair=count("replica", "expert_replica"),
            apart=apart,
            beside_data=apart | new("context", "replica"),
        )


def rail_ring(group: GroupLevels, hb_domain_size: int) -> np.ndarray:
    """HB domains that a group's rings on the rails visit, as two nested runs [4, ...]: domains and stride of each run.

    Two groups of a rank have the same circuits where these numbers are equal.
    """
    inner, stride, outer, gap, _ = np.broadcast_arrays(*group.between_domains(hb_domain_size)[1])
    first, second = (inner, stride / hb_domain_size), (outer, gap / hb_domain_size)
    one = (first[0] == 1) | (second[0] == 1) | (second[1] == first[0] * first[1])
    apart = np.where(first[0] > 1, first[1], np.where(second[0] > 1, second[1], 0.0))
    rest = np.where(one, 1, second[0]), np.where(one, 0.0, second[1])
    return np.stack([np.where(one, first[0] * second[0], first[0]), apart, *rest])


@dataclass(frozen=True)
class Step:
    """Times [s] and counts of a step, arrays of one shape; symbols as in the module.

    f, b, g, r: of one layer. h: of one hop.
    before_f, before_b: part of f and b before tokens leave for their experts.
    tokens: part of f and b in which tokens are on their way.
    twice: whether a backward pass also sends the tokens of the forward pass again (full recompute).
    edge, head: parameters of the embedding and of the output, over those of a layer.
    keys: gather of a layer's keys and values.
    logits_s, optimizer_s: of logits and of the update.
    hops: whether hops are on the rails.
    rings: of the stages.
    mixed: share of mixture layers.
    data: whether data ranks are on the rails.
    first, every: whether weights are gathered in the first forward pass, in every pass.
    sums: whether gradients are summed in every backward pass, else in the last one.
    after: whether they are summed after the pass, else layer by layer behind it.
    sums_pipeline: whether a short AllReduce over the pipeline ends the step.
    tied: whether the ends of the pipeline sum gradients of tied embeddings over the rails.
    """

    p: Any
    v: Any
    m: Any
    L: Any
    f: Any
    b: Any
    g: Any
    r: Any
    h: Any
    before_f: Any
    before_b: Any
    tokens: Any
    twice: Any
    edge: Any
    head: Any
    keys: Any
    logits_s: Any
    optimizer_s: Any
    hops: Any
    rings: Rings
    mixed: Any
    data: Any
    first: Any
    every: Any
    sums: Any
    after: bool
    sums_pipeline: bool
    tied: Any

    def added_s(self, reconfiguration_s: Any, provisioning: bool) -> Any:
        """What changes add: T(d) - T(0)."""
        return (
            _Iteration(self, reconfiguration_s, provisioning).total_s() - _Iteration(self, 0.0, provisioning).total_s()
        )


@dataclass(frozen=True)
class _Iteration:
    """T(d) without the terms that do not depend on d. early: with provisioning."""

    s: Step
    d: Any
    early: bool

    @property
    def always(self) -> Any:
        """Whether all passes have traffic besides hops."""
        return self.s.every | self.s.rings.context | self.s.rings.expert

    def change(self, window_s: Any = 0.0, where: Any = True) -> Any:
        """What a change between hops and other traffic adds."""
        return np.where(self.s.hops & where, np.maximum(self.d - self.early * window_s, 0.0), 0.0)

    def layers(self, layer_s: Any, before_s: Any, gathers: Any, sums_s: Any = 0.0, more: Any = 0) -> Any:
        """A pass of a chunk: weights are gathered one layer ahead, gradients summed behind.

        more: layers whose sums the pass before has left.
        """
        s, rings, d = self.s, self.s.rings, self.d
        stream = np.where(gathers, s.g, 0.0) + sums_s + rings.context * s.keys
        exchanges = 1 * gathers + (sums_s > 0)

        def around(kinds: Any) -> Any:
            """A layer beside exchanges on `kinds` sets of circuits in turn; twice each with keys between them."""
            kinds = np.where(exchanges > 0, kinds, 1 * rings.context)
            changes = np.where(kinds > 1, kinds * np.maximum(rings.context * exchanges, 1), 0)
            return np.maximum(layer_s, stream + changes * d)

        turns = exchanges * rings.pair * rings.apart
        mixture = np.where(
            turns > 0, self.tokens(layer_s, before_s, np.maximum(turns, 1), stream), around(rings.routed)
        )
        first = gathers * (s.g + d * (rings.apart * (rings.pair - s.hops)))
        return first + (s.L - 1 + more) * ((1 - s.mixed) * around(rings.shared) + s.mixed * mixture) + layer_s

    def tokens(self, layer_s: Any, before_s: Any, turns: Any, stream_s: Any) -> Any:
        """A layer whose tokens interrupt exchanges on `turns` other rings.

        All exchanges run before the tokens leave. Where a change and one exchange take longer than that, one exchange
        runs between two uses of the tokens' circuits.
        """
        d, early, exchange_s = self.d, self.early * self.d, stream_s / turns
        after_s = np.maximum(layer_s - before_s - self.s.tokens, 0.0)
        together = np.maximum(before_s, stream_s + turns * d + early) + d - early + after_s
        times = np.minimum(turns, np.where(self.s.twice & (turns > 2), 4, 2))
        between = np.maximum(before_s, exchange_s + d + early) + np.maximum(after_s, exchange_s + d + early)
        between += (turns - 2) * (exchange_s + d) + (times - 2) * early + times * (d - early)
        crowded = (turns > 1) & (exchange_s + d > before_s)
        return np.where(crowded, np.maximum(together, between), together) + self.s.tokens

    def ends(self, layer_s: Any, more: Any) -> Any:
        """Gathers of an end of the model: before the first layer of a pass, behind the last of the other pass."""
        g = self.s.g
        return more * g + np.maximum(g + more * g - np.maximum(layer_s, g), 0.0)

    def entry(self, gathers: Any, before_s: Any) -> Any:
        """Change from a hop to the first exchange of a pass. It is asked for with the input; tokens leave later."""
        s = self.s
        tokens = s.rings.expert & ~gathers
        return self.change(np.where(tokens, before_s, 0.0), gathers | s.rings.context | s.rings.expert)

    def window(self) -> Any:
        """How long the ports are free at the end of a forward pass."""
        s = self.s
        left = s.f + np.where(s.L > 1, np.maximum(s.f - s.g, 0.0), 0.0)
        left = np.where(s.rings.context, np.maximum(s.f - s.keys, 0.0), left)
        return np.where(s.rings.expert, 0.0, left)

    def between(self) -> Any:
        """What a hop between two exchanges of a pass adds: two changes, less the compute of a layer beside each."""
        return np.where(self.s.hops & (self.s.v > 1), np.maximum(2 * (self.d - self.s.f), 0.0), 0.0)

    def backward(self, sums: Any, new: Any = True) -> tuple[Any, Any, Any]:
        """A backward pass: time until its hop can start, free time of the ports before that, rest of the sums after it.

        sums: whether gradients are summed. new: whether their circuits are not up yet.
        """
        s, sums, behind = self.s, sums & self.s.data, sums & self.s.data & (not self.s.after)
        whole_s, several = s.L * s.b, s.L > 1
        # Beside other exchanges in the pass.
        inside = self.layers(s.b, s.before_b, s.every, behind * s.r)
        slack = s.b + np.where(s.every, np.maximum(s.b - s.g, 0.0), 0.0)
        slack = np.where(behind & several, np.maximum(s.b - s.r, 0.0), slack)
        slack = np.where(s.rings.expert, 0.0, slack)
        # Alone: each sum is asked for after the one before. The hop meets one of them, on average half done.
        start, on_time = s.b + self.change(s.b, new), (s.L - 1) * s.b + s.r
        late = s.b + self.d * (s.hops & new) + (s.L - 1) * s.r > on_time  # when the order is learnt
        met = np.maximum(whole_s + s.r / 2, start + s.r)
        done = np.where(behind & several, np.where(late, met, on_time), 0.0)
        alone = np.maximum(whole_s, done)
        rest = np.where(behind, np.maximum(np.maximum(start + s.L * s.r, whole_s + s.r) - alone, 0.0), 0.0)
        time, free = np.where(self.always, inside, alone), np.where(self.always, slack, alone - done)
        if s.after:
            others = np.where(self.always, self.d * (s.rings.beside_data & ~s.every), self.change(whole_s, new))
            layer_s = s.r + self.d * (s.mixed * np.where(s.rings.pair * s.rings.apart > 1, 2, 0))
            time = time + np.where(sums, others + s.L * layer_s, 0.0)
            free = np.where(sums, 0.0, free)
        return time, free, np.where(self.always, behind * s.r, rest)

    def forward_s(self) -> Any:
        """The first micro-batch through all chunks, and on the last stage to the next one."""
        s = self.s
        V, first, exchanges = s.p * s.v, self.layers(s.f, s.before_f, s.first), s.first | self.always
        time = self.change(s.optimizer_s, exchanges & s.sums_pipeline) + V * first
        time += (V - 1) * (self.change(self.window(), exchanges) + s.h + self.entry(s.first, s.before_f)) + s.logits_s
        # Interleaved: hops of later micro-batches fall between gathers until the last has come, at most one a layer.
        coming_s, hop_s = (s.p - 1) * first, self.between()
        met = np.minimum((s.L - 1) * hop_s, coming_s * hop_s / (hop_s + s.f))
        time += np.where(s.first & ~s.every, V * met, 0.0)
        turns = s.first & ~self.always & ~s.sums & (s.m > 1)
        return time + self.change(self.window() + s.L * s.b + s.logits_s, turns)

    def backward_s(self) -> Any:
        """The last micro-batch back through all chunks, and the short AllReduces."""
        s, V = self.s, self.s.p * self.s.v
        last, last_free, last_rest = self.backward(True, (s.m > 1) | ~s.first)
        other, free, rest = self.backward(True)
        changes = self.always | (s.data & ((s.L > 1) | s.after))
        time = last + (V - 1) * (s.h + self.entry(s.every, s.before_b) + other)
        time += (V > 1) * self.change(last_free, changes) + np.maximum(V - 2, 0) * self.change(free, changes)
        # The last layer's sums, and the gradients' norm.
        time += s.data * s.rings.apart * (2 * s.rings.pair - 1) * self.d * (not s.after)
        time += np.where(V > 1, rest, last_rest) + 2 * self.change(0.0, s.tied & (s.data | (s.p > 2)))
        return time + self.change(0.0, (s.data | self.always) & s.sums_pipeline)

    def cycle_s(self) -> Any:
        """C(d): what another micro-batch adds, on the slowest of the first, the last and the inner stages."""
        s, single = self.s, self.s.v == 1
        other, free, _ = self.backward(s.sums)
        left = s.rings.apart * s.sums * (not s.after)  # sums of the last layer are beside the next pass
        other = other + left * (
            self.layers(s.b, s.before_b, s.every, s.r, 1) - self.layers(s.b, s.before_b, s.every, s.r)
        )
        both = self.layers(s.f, s.before_f, s.every) + other + np.where(s.every & s.sums, s.r, 0.0)
        once = self.entry(s.every, s.before_b) + self.change(free, self.always | (s.sums & s.data & (s.L > 1)))
        twice = once + self.entry(s.every, s.before_f) + self.change(self.window(), self.always)
        twice += np.where(self.always, self.between(), 0.0)  # assumed: in one of the two passes
        at_head = (s.logits_s + s.every * self.ends(s.f, s.head)) / s.v
        at_edge = s.every * (self.ends(s.b, s.edge) + s.sums * s.edge * s.r) / s.v
        ends = np.maximum(at_head, at_edge) + single * s.h + np.where(single, once, twice)
        inner = np.where(s.p * s.v > 2, 2 * single * s.h + twice, 0.0)
        return both + np.where(s.p == 1, at_head + at_edge, np.maximum(ends, inner))

    def total_s(self) -> Any:
        """T(d) = P(d) + ((m - p) v + p - 1) C(d): one micro-batch forward and back (P), and what the others add."""
        s = self.s
        more = np.maximum((s.m - s.p) * s.v + s.p - 1, 0)
        return self.forward_s() + self.backward_s() + more * self.cycle_s()
