"""What each pipeline stage does in a training step: computes and collectives, and what each waits for.

Each stage computes its chunk passes in the order of `timetable`. Around them:

- pipeline: a hop sends the output of a pass to the next stage. The receiver takes it right before it needs it; with
  interleaved chunks and `overlap_pipeline` it may come earlier.
- data: with sharded weights an AllGather before each layer, at most one layer ahead, and none before the input of the
  pass is there. Gradients are summed layer by layer behind the backward pass, or after it (`gradients_after_pass`).
- context: keys and values beside the attention. expert: tokens to their experts and back, in each mixture layer.
- tensor: within the HB domain (scale-up or NVLink domain). In-domain collectives are part of the compute, or
  operations of their own (`detail`).
- after the last pass: the sum of tied embeddings' gradients, short AllReduces (gradient norm) over the replica group
  and the pipeline, then the optimizer.

Times of compute are those of `iteration_times`; what is sent is the table of `exchanges`.

Sources: Narayanan et al. 2021 (schedules); Zhao et al. 2023, arXiv:2304.11277 (FSDP); photonic2025, section 3.1 (lazy
AllGathers, AllReduces of the optimizer).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from railcore.catalog.arguments import checked
from railcore.catalog.checks import one_of
from railcore.photonics.timetable import schedule
from railcore.training.exchanges import (
    REPLICA_EXCHANGES,
    Exchange,
    gathers,
    layer_exchanges,
    replica_element_bytes,
    replicas_exchange,
)
from railcore.training.formats import FP32_BYTES
from railcore.training.iteration import iteration_times
from railcore.training.layer import layer_costs, layer_passes
from railcore.training.machine import Machine
from railcore.training.parallelism import Strategy
from railcore.training.rank import Rank
from railcore.training.runtime import Runtime
from railcore.training.transformer import SHARDING, Transformer
from railcore.training.transformer_memory import EVERY_OPERATOR


class Operation(NamedTuple):
    """A compute or a collective of the stages' program, the same on every replica.

    group: kind of group of `Strategy`, "rank" for a compute, "hop" for two stages of a pipeline, "ends" for the first
        and the last.
    seconds: of a compute, or of a collective in the HB domain. None: computed from its bytes and the machine.
    source, target: stages of a hop.
    message_bytes: as in `transfers`.
    """

    kind: str
    operation: str
    phase: str
    group: str
    stage: int
    seconds: float | None = None
    message_bytes: float = 0.0
    chunk: int = -1
    microbatch: int = -1
    layer: int = -1
    source: int = -1
    target: int = -1
    iteration: int = 0


@checked
@dataclass(frozen=True)
class StepOptions:
    """How the software runs a step.

    reshard_after_forward: sharded weights are gathered in every pass; else once an iteration, in the first pass.
    accumulate_gradients: gradients are exchanged in the pass of the last micro-batch only.
    gradients_after_pass: gradients are exchanged after all layers of a backward pass, and its output is sent after
        them; else layer by layer behind the pass.
    sync_groups: kinds of groups over which norms are summed before the optimizer, in this order.
    detail: collectives in the HB domain are operations of their own.
    """

    reshard_after_forward: bool = True
    accumulate_gradients: bool = False
    gradients_after_pass: bool = False
    sync_groups: tuple[str, ...] = ("replica", "pipeline")
    detail: bool = False

    def __post_init__(self) -> None:
        for kind in self.sync_groups:
            one_of("sync_groups", kind, ("replica", "pipeline"))


DEFAULT_STEP = StepOptions()


def fsdp_options(**changes: Any) -> StepOptions:
    """Options of FSDP with a pipeline: weights stay gathered, gradients are exchanged after the last backward pass."""
    kept = StepOptions(reshard_after_forward=False, accumulate_gradients=True, gradients_after_pass=True)
    return replace(kept, **changes)


class StageProgram:
    """Programs of the stages in the making: operations, and what each waits for."""

    def __init__(
        self,
        model: Transformer,
        machine: Machine,
        strategy: Strategy,
        global_batch: int,
        options: StepOptions,
        runtime: Runtime,
    ) -> None:
        for name in ("whole_experts", "ends_as_layers", "keep_gathered"):
            if getattr(strategy, name):
                raise ValueError(f"{name} is True: the simulated step does not have it, give False")
        if runtime.dual(strategy.pipeline, strategy.interleave):
            raise ValueError(f"schedule is {runtime.schedule!r}: the simulated step does not have it, give '1f1b'")
        if model.experts and runtime.dispatcher != "copies":
            raise ValueError(
                f"dispatcher is {runtime.dispatcher!r}: the simulated step does not have it, give 'copies'"
            )
        if model.mtp_layers:
            raise ValueError(f"mtp_layers is {model.mtp_layers}: the simulated step does not have them, give 0")
        if model.lora_rank:
            raise ValueError(f"lora_rank is {model.lora_rank}: the simulated step does not have adapters, give 0")
        exchanged = sorted({"mlp", "moe", "shared_experts", EVERY_OPERATOR} & {*runtime.recompute_modules})
        if strategy.recompute == "selective" and exchanged:
            again = ", ".join(exchanged)
            raise ValueError(f"recompute_modules has {again}: the simulated step does not exchange again")
        self.model, self.machine, self.strategy, self.options = model, machine, strategy, options
        self.runtime, self.global_batch = runtime, global_batch
        self.operations: list[Operation] = []
        self.after: list[list[int]] = []
        self.named: dict[Any, int] = {}
        self.last_compute = [-1] * strategy.pipeline
        self.last_data = [-1] * strategy.pipeline
        self.stage_end: list[list[int]] = [[] for _ in range(strategy.pipeline)]
        p, m, v = strategy.pipeline, strategy.microbatches(global_batch), strategy.interleave
        kind = "interleaved" if v > 1 else "1f1b"
        self.m, self.orders = m, schedule(kind, p, m, 1.0, 1.0, chunks=v).order
        self._read_times()
        self._read_parameters()

    def _read_times(self) -> None:
        """Seconds of a layer's parts, of logits, of the optimizer, and bytes between stages."""
        columns = {name: np.asarray(value) for name, value in self._columns().items()}
        rank = Rank.on(self.machine, self.model, self.runtime, columns)
        passes = layer_passes(rank, self.machine)
        costs = layer_costs(self.model, self.machine, self.runtime, columns)
        self.seconds = {
            phase: {name: float(getattr(times, phase)) for name, times in passes.work.items()}
            for phase in ("forward", "backward")
        }
        self.recompute_s = float(costs.seconds["recompute"]) if self.strategy.recompute == "selective" else 0.0
        self.keys_s = float(passes.traffic["context"].forward.time_s)
        of_kinds = {mixed: replace(rank, mixtures=np.array(float(mixed))) for mixed in (False, True)}
        self.exchanges = {mixed: _numbers(layer_exchanges(of_kind)) for mixed, of_kind in of_kinds.items()}
        self.operators = {mixed: int(of_kind.operators) for mixed, of_kind in of_kinds.items()}
        # Logits and loss: forward the product, backward its two gradients.
        self.logits_s = float(costs.logits_s)
        self.boundary_bytes, self.boundary_s = float(costs.boundary_bytes), float(costs.boundary_gather.time_s)
        estimate = iteration_times(self.model, self.machine, self._columns(), self.runtime)
        self.optimizer_s, self.memory_bytes = float(estimate.breakdown["optimizer_s"]), float(estimate.memory_bytes)

    def _columns(self) -> dict[str, int]:
        return self.strategy.columns(self.global_batch)

    def _read_parameters(self) -> None:
        """Parameters of a rank: in each layer and at both ends of the model, of a layer's experts, and tied ones."""
        mixed, p = self.model.mixture_share, self.strategy.pipeline
        held = self.model.rank_parameters(self.strategy.tensor, self.strategy.expert)
        self.shared, self.experts = float(held.layers(1 - mixed, mixed)), float(held.experts)
        self.first, self.last = float(held.first), float(held.last(p))
        self.element_bytes = replica_element_bytes(self.runtime, self.machine.format, self.model)
        self.tied = float(held.tied) * (p > 1)

    def add(self, operation: Operation, after: list[int], name: Any = None) -> int:
        """Add an operation that waits for `after`, one with a name only once. Returns its number."""
        number = self.named.setdefault(name, len(self.operations)) if name else len(self.operations)
        if number == len(self.operations):
            self.operations.append(operation)
            self.after.append([])
        self.after[number] += [before for before in after if before >= 0]
        return number

    @cached_property
    def spread(self) -> dict[str, tuple[int, int]]:
        """Ranks of a group of each kind in an HB domain, and domains that it is in."""
        levels = self.strategy.group_levels()
        counts = {kind: group.in_domains(self.machine.hb_domain_size) for kind, group in levels.items()}
        return {kind: (int(inside), int(domains)) for kind, (inside, domains) in counts.items()}

    @cached_property
    def operated(self) -> frozenset[str]:
        """Kinds of groups whose collectives in a layer are operations of their own; others are part of the compute."""
        if self.options.detail:
            return frozenset(kind for kind in ("tensor", "context", "expert") if self.members[kind] > 1)
        return frozenset(kind for kind in ("context", "expert") if self.spread[kind][1] > 1)

    @cached_property
    def members(self) -> dict[str, int]:
        """Ranks of a group of each kind."""
        return {kind: inside * domains for kind, (inside, domains) in self.spread.items()}

    def add_iteration(self, iteration: int) -> None:
        """Programs of all stages for one step."""
        for stage in range(self.strategy.pipeline):
            for node in self.orders[stage].tolist():
                self._add_pass(iteration, stage, node)
            self.stage_end[stage] = [self.last_compute[stage], self.last_data[stage]]
        self._add_optimizer(iteration)

    def _add_pass(self, iteration: int, stage: int, node: int) -> None:
        """One pass of a chunk: its input's hop, its layers with their collectives, its output's hop."""
        p, v = self.strategy.pipeline, self.strategy.interleave
        position, microbatch = divmod(node, self.m)
        phase, virtual = self._place(position)
        common = {"stage": stage, "chunk": virtual // p, "microbatch": microbatch, "iteration": iteration}
        arrived = []
        if position and p > 1 and position != p * v:
            early = self.runtime.overlap_pipeline and v > 1
            posted = [] if early else [self.last_compute[stage]]
            arrived.append(self._hop(iteration, position - 1, microbatch, posted))
        _Pass(self, phase, virtual, microbatch, common, arrived).add()
        if p > 1 and position not in (p * v - 1, 2 * p * v - 1):
            waits = [self.last_compute[stage]]
            if self.options.gradients_after_pass and phase == "backward":
                waits.append(self.last_data[stage])
            self._hop(iteration, position, microbatch, waits)

    def _place(self, position: int) -> tuple[str, int]:
        """Direction and virtual stage of a position of `timetable`."""
        chunks = self.strategy.pipeline * self.strategy.interleave
        return ("forward", position) if position < chunks else ("backward", 2 * chunks - 1 - position)

    def _hop(self, iteration: int, position: int, microbatch: int, after: list[int]) -> int:
        """The transfer of a pass's output to the next stage."""
        p, (phase, virtual) = self.strategy.pipeline, self._place(position)
        source, target = virtual % p, (virtual + (1 if phase == "forward" else -1)) % p
        hop = Operation(
            "pipeline",
            "send_receive",
            phase,
            "hop",
            source,
            message_bytes=self.boundary_bytes,
            chunk=virtual // p,
            microbatch=microbatch,
            source=source,
            target=target,
            iteration=iteration,
        )
        return self.add(hop, after, ("hop", iteration, position, microbatch))

    def _add_optimizer(self, iteration: int) -> None:
        """Sum of tied embeddings' gradients, short AllReduces, then the optimizer's step."""
        p, ends = self.strategy.pipeline, [list(end) for end in self.stage_end]
        held = self.members["replica"] if self.strategy.sharding in ("gradients", "weights") else 1
        if tied := self.tied * self.element_bytes["gradients"] / held:
            summed = Operation("pipeline", "all_reduce", "after", "ends", 0, message_bytes=tied, iteration=iteration)
            ends[0] = ends[-1] = [self.add(summed, ends[0] + ends[-1])]
        for kind in self.options.sync_groups:
            if self.members[kind] == 1:
                continue
            name = "data" if kind == "replica" else "pipeline"
            for stage in range(1 if kind == "pipeline" else p):
                summed = Operation(
                    name, "all_reduce", "after", kind, stage, message_bytes=FP32_BYTES, iteration=iteration
                )
                waits = list(chain.from_iterable(ends)) if kind == "pipeline" else ends[stage]
                end = [self.add(summed, waits)]
                for place in range(p) if kind == "pipeline" else (stage,):
                    ends[place] = end
        for stage in range(p):
            step = Operation(
                "compute", "optimizer", "after", "rank", stage, seconds=self.optimizer_s, iteration=iteration
            )
            self.last_compute[stage] = self.add(step, ends[stage])
            self.last_data[stage] = -1


class _Pass:
    """One pass of one chunk on a stage, which adds itself to the stage's program."""

    def __init__(
        self,
        program: StageProgram,
        phase: str,
        virtual: int,
        microbatch: int,
        common: Mapping[str, int],
        arrived: list[int],
    ) -> None:
        self.program, self.phase, self.common, self.arrived = program, phase, dict(common), arrived
        self.stage, self.microbatch = common["stage"], microbatch
        strategy, options = program.strategy, program.options
        chunks = strategy.pipeline * strategy.interleave
        self.layers = program.model.layers // chunks
        self.first_layer = virtual * self.layers
        self.begins, self.ends = virtual == 0, virtual == chunks - 1
        some, more = divmod(strategy.recomputed_layers, strategy.interleave)
        some = some + (virtual // strategy.pipeline < more) if strategy.recomputed_layers else self.layers
        self.recomputed = min(some, self.layers)  # by full recompute, the first ones
        last = microbatch == program.m - 1
        level = SHARDING.index(strategy.sharding)
        self.gathers = bool(replicas_exchange(level, "weights", phase)) and options.reshard_after_forward
        # Weights gathered once an iteration come before its first pass.
        self.gathers |= bool(replicas_exchange(level, "weights")) and phase == "forward" and microbatch == 0
        every = bool(replicas_exchange(level, "gradients", "backward")) and not options.accumulate_gradients
        self.reduces = phase == "backward" and (every or last)
        if program.members["replica"] == 1:
            self.gathers = self.reduces = False

    @property
    def compute(self) -> int:
        return self.program.last_compute[self.stage]

    @compute.setter
    def compute(self, number: int) -> None:
        self.program.last_compute[self.stage] = number

    def add(self) -> None:
        """Layers in their order, or all at once where no collective falls between them."""
        program, forward = self.program, self.phase == "forward"
        by_layer = self.gathers or (self.reduces and not program.options.gradients_after_pass)
        by_layer |= program.options.detail or bool(program.operated)
        layers = list(range(self.layers)) if forward else list(reversed(range(self.layers)))
        waits = [self.compute, *self.arrived]
        if not by_layer:
            counts = (0, self.recomputed), (self.layers - 1, self.layers - self.recomputed)  # of layers alike
            seconds = sum(count * sum(item[-1] for item in self._items(layer)) for layer, count in counts)
            self._compute(waits, seconds + sum(self._edge_s(layer, layers[0]) for layer in layers), -1)
        else:
            gathered = self._gather(layers[0], waits) if self.gathers else []
            for place, layer in enumerate(layers):
                ahead = layers[place + 1 : place + 2] if self.gathers else []
                following = self._gather(ahead[0], waits) if ahead else []
                self._layer(layer, waits + gathered, self._edge_s(layer, layers[0]))
                gathered, waits = following, [self.compute]
                if self.reduces and not program.options.gradients_after_pass:
                    self._reduce(layer, [self.compute])
        if self.reduces and program.options.gradients_after_pass:
            for layer in layers:
                self._reduce(layer, [self.compute])

    def _edge_s(self, layer: int, first: int) -> float:
        """Compute of a layer at an end: gather of the input in the first layer, logits in the last one.

        Forward has a third of the logits' time, one product of three. first: the layer with which the pass begins.
        """
        gather = self.program.boundary_s if self.arrived and layer == first else 0.0
        share = 1 / 3 if self.phase == "forward" else 2 / 3
        return gather + (self.program.logits_s * share if self.ends and layer == self.layers - 1 else 0.0)

    def _layer(self, layer: int, waits: list[int], more_s: float) -> None:
        """One layer: computes after each other, with collectives between and beside them."""
        beside: list[int] = []
        for what, *rest in self._items(layer):
            if what == "compute":
                self._compute(waits, rest[-1] + more_s, layer)
                more_s, waits, beside = 0.0, [self.compute, *beside], []
                continue
            kind, operation, group, size, seconds = rest
            made = self._collective(kind, operation, group, layer, size, seconds, waits + beside)
            if what == "beside":
                beside = [made]
            else:
                waits = [made]
        if waits != [self.compute]:
            self._compute(waits, more_s, layer)

    def _compute(self, waits: list[int], seconds: float, layer: int) -> None:
        operation = Operation(
            "compute", self.phase, self.phase, "rank", layer=self._number(layer), seconds=seconds, **self.common
        )
        self.compute = self.program.add(operation, [*waits, self.compute])

    def _mixed(self, layer: int) -> bool:
        """Whether a layer is a mixture of experts; for all of a chunk, whether the model has any."""
        model = self.program.model
        return model.experts > 0 and (layer < 0 or model.has_experts(self._number(layer)))

    def _number(self, layer: int) -> int:
        """Number of a layer in the model; -1 for all of a chunk."""
        return layer if layer < 0 else self.first_layer + layer

    def _collective(
        self, kind: str, operation: str, group: str, layer: int, size: float, seconds: float | None, waits: list[int]
    ) -> int:
        made = Operation(
            kind,
            operation,
            self.phase,
            group,
            seconds=seconds,
            message_bytes=size,
            layer=self._number(layer),
            **self.common,
        )
        return self.program.add(made, waits)

    def _items(self, layer: int) -> Iterator[tuple]:
        """Parts of a layer in their order: ("compute", seconds), ("beside" or "between", collective, ..., seconds)."""
        strategy, forward = self.program.strategy, self.phase == "forward"
        again = strategy.recompute == "full" and layer < self.recomputed
        for direction in ("forward",) if forward else ("forward", "backward") if again else ("backward",):
            yield from self._direction_items(layer, direction)

    def _direction_items(self, layer: int, direction: str) -> Iterator[tuple]:
        """Parts of a layer's forward or backward pass."""
        program, mixed, seconds = self.program, self._mixed(layer), self.program.seconds[direction]
        rows = [row for row in program.exchanges[mixed] if row.phase == direction and row.group in program.operated]
        keys, tokens, tensor = ([row for row in rows if row.group == kind] for kind in ("context", "expert", "tensor"))
        attention = seconds["attention"] + (program.recompute_s if direction == "backward" else 0.0)
        rest = seconds["linear"] + seconds["elementwise"] + seconds["host"]
        if keys:
            yield from (_collective_item("beside", row, program.keys_s) for row in keys)
            yield ("compute", attention)
            exposed = max(program.keys_s * len(keys) - seconds["attention"], 0.0)
            rest += seconds["context"] - exposed  # what compute loses to the exchange beside it
        else:
            rest += attention + seconds["context"]
        if "expert" not in program.operated:
            rest += seconds["expert"]
        if "tensor" not in program.operated:
            rest += seconds["tensor"]
        way_s = seconds["expert"] / 2 / (program.model.mixture_share or 1.0)
        ways = [_collective_item("between", row, way_s) for row in tokens]
        operators, plain = (1 if program.model.parallel_block else 2), program.operators[mixed]
        weight_s = seconds["tensor"] / max(gathers(tensor), 1.0)
        for operator in range(operators):
            last = operator == operators - 1
            rows = [row._replace(calls=row.calls / plain) for row in tensor if not row.routed and operator < plain]
            rows += [row for row in tensor if row.routed and last]
            calls = [
                _collective_item("between", row, weight_s * gathers([row]) / row.calls)
                for row in rows
                for _ in range(round(row.calls))
            ]
            yield from ways[:1] if last else ()
            yield from (call for call in calls if call[2] == "all_gather")
            yield ("compute", rest / operators)
            yield from (call for call in calls if call[2] != "all_gather")
            yield from ways[1:] if last else ()

    def _sizes(self, layer: int) -> list[tuple[str, float]]:
        """Groups that share parameters of a layer, and parameters of a rank."""
        program = self.program
        shared = program.shared + program.first * (self.begins and layer == 0)
        sizes = [("replica", shared + program.last * (self.ends and layer == self.layers - 1))]
        if self._mixed(layer):
            sizes.append(("expert_replica", program.experts))
        return [(group, size) for group, size in sizes if program.members[group] > 1]

    def _gather(self, layer: int, gate: list[int]) -> list[int]:
        """AllGather of a layer's weights."""
        self._exchange("weights", "all_gather", layer, gate)
        return [self.program.last_data[self.stage]]

    def _reduce(self, layer: int, gate: list[int]) -> None:
        """Sum of a layer's gradients."""
        rows = REPLICA_EXCHANGES[self.program.strategy.sharding]
        self._exchange("gradients", next(row.operation for row in rows if row.what == "gradients"), layer, gate)

    def _exchange(self, what: str, operation: str, layer: int, gate: list[int]) -> None:
        """An exchange of the data ranks, after `gate` and their exchange before."""
        for group, parameters in self._sizes(layer):
            waits = [*gate, self.program.last_data[self.stage]]
            size = parameters * self.program.element_bytes[what]
            number = self._collective("data", operation, group, layer, size, None, waits)
            self.program.last_data[self.stage] = number


def _numbers(rows: Iterable[Exchange]) -> list[Exchange]:
    """Exchanges of one strategy that have calls, as numbers."""
    numbers = (row._replace(calls=float(row.calls), unit_bytes=float(row.unit_bytes)) for row in rows)
    return [row for row in numbers if row.calls > 0]


def _collective_item(place: str, row: Exchange, seconds: float) -> tuple:
    """A collective of a layer: "beside" its computes or "between" them."""
    return place, row.group, row.operation, row.group, float(row.message_bytes), seconds
