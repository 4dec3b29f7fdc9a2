"""The dependency graph of a training step: computes and collectives of every rank, for any strategy.

`stage_program` has the operations of a pipeline stage; here every replica has them. The network of `simulation` says
how long an exchange over the rails takes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.arguments import Listed, checked
from railcore.photonics.stage_program import DEFAULT_STEP, Operation, StageProgram, StepOptions
from railcore.training.collectives import steps_and_bytes
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, as_model

WORKLOAD_KINDS = ("compute", "tensor", "context", "expert", "pipeline", "data")
RING_KINDS = ("tensor", "context", "expert", "pipeline", "data", "expert data", "tied embeddings")
LINKS = ("gpu", "hb", "rail")


@dataclass(frozen=True, eq=False)
class Workload:
    """Operations of training steps on the ranks simulated, and what each waits for; made by `training_step`.

    model, machine, strategy, global_batch, iterations: arguments of `training_step`.
    programs: operations of the stages.
    simulated: ranks whose operations are here: all, or those of one replica (a rank of each stage, in the same place),
        whose collectives stand for all.

    Of each operation:
    program: index in programs.
    ranks: its members.
    after: operations that end before it starts.
    link: index in LINKS.
    seconds: of a compute or a collective in the HB domain; 0 of others.
    least_s: over the rails, the time that the HB interconnect needs.
    sent_bytes, steps: through each NIC, with the algorithm of fewest bytes and steps.
    ring_bytes, ring_steps: the same as a ring.
    """

    model: Transformer
    machine: Machine
    strategy: Strategy
    global_batch: int
    iterations: int
    programs: list[Operation]
    program: list[int]
    ranks: list[tuple[int, ...]]
    after: list[tuple[int, ...]]
    simulated: frozenset[int]
    link: list[int]
    seconds: list[float]
    least_s: list[float]
    sent_bytes: list[float]
    ring_bytes: list[float]
    steps: list[int]
    ring_steps: list[int]
    warnings: tuple[str, ...] = ()

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each operation: op, fields of `Operation` that say what it is, ranks, link, sent_bytes, burst.

        group: kind and first rank of the group, such as "replica 3", or the ranks of a hop or a compute. burst: the
        same number for collectives of a group that follow each other in one pass of a chunk.
        """
        table = pd.DataFrame(self.programs).iloc[self.program].reset_index(drop=True)
        table.insert(0, "op", np.arange(len(table)))
        table["ranks"] = self.ranks
        table["link"] = np.array(LINKS)[self.link]
        table["sent_bytes"] = self.sent_bytes
        table["group"] = [
            f"{kind} {min(ranks)}" if kind not in ("hop", "rank") else "-".join(map(str, ranks))
            for kind, ranks in zip(table["group"], self.ranks, strict=True)
        ]
        same = ["iteration", "group", "kind", "operation", "phase", "chunk", "microbatch"]
        table["burst"] = table.groupby(same, sort=False).ngroup()
        return table.drop(columns=["source", "target", "seconds"])

    def operation(self, op: int) -> Operation:
        """What an operation is."""
        return self.programs[self.program[op]]

    @property
    def one_replica(self) -> bool:
        """Whether one replica stands for all."""
        return len(self.simulated) < self.strategy.gpus

    @cached_property
    def iteration_of(self) -> np.ndarray:
        """Iteration of each operation."""
        return np.array([operation.iteration for operation in self.programs])[self.program]

    def ring(self, op: int) -> str:
        """Kind of the rings that an operation uses, one of RING_KINDS: its kind of traffic, or a ring apart from it."""
        what = self.operation(op)
        if what.group == "ends" and self.strategy.pipeline > 2:
            return "tied embeddings"
        return "expert data" if what.group == "expert_replica" else what.kind

    @cached_property
    def rail_rings(self) -> tuple[str, ...]:
        """Kinds of rings on the rails, see `ring`."""
        kinds = {self.ring(op) for op, link in enumerate(self.link) if LINKS[link] == "rail"}
        return tuple(kind for kind in RING_KINDS if kind in kinds)

    def transfers(self, op: int, forwarded: bool = False) -> list[tuple[int, int]]:
        """Pairs (from, to) of ranks whose NICs an operation uses: a hop's two, or neighbours in its rings.

        A ring joins the members on one rail, in the order of their HB domains. Where that leaves a domain out, one ring
        joins all members. forwarded: traffic to another rail leaves from the GPU on that rail in the sender's domain.
        """
        ranks, size = self.ranks[op], self.machine.hb_domain_size
        pairs = [ranks] if self.operation(op).group == "hop" else self._ring_pairs(sorted(ranks))
        return [(a - a % size + b % size if forwarded else a, b) for a, b in pairs]

    def _ring_pairs(self, ranks: list[int]) -> list[tuple[int, int]]:
        """Neighbours in the rings of a group that are in two HB domains."""
        size = self.machine.hb_domain_size
        rings: dict[int, list[int]] = {}
        for rank in ranks:
            rings.setdefault(rank % size, []).append(rank)
        pairs = [(ring[place - 1], rank) for ring in rings.values() if len(ring) > 1 for place, rank in enumerate(ring)]
        if {rank // size for pair in pairs for rank in pair} == {rank // size for rank in ranks}:
            return pairs
        around = [(ranks[place - 1], rank) for place, rank in enumerate(ranks)]
        return [(a, b) for a, b in around if a // size != b // size]

    @cached_property
    def followers(self) -> list[list[int]]:
        """Of each operation, the operations that wait for it."""
        followers: list[list[int]] = [[] for _ in self.after]
        for follower, waits in enumerate(self.after):
            for op in waits:
                followers[op].append(follower)
        return followers


@checked
def training_step(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Listed,
    options: StepOptions = DEFAULT_STEP,
    runtime: Runtime | str | None = None,
    iterations: Listed = 1,
    one_replica: bool = False,
) -> Workload:
    """The dependency graph of training steps, built from model, machine and strategy.

    Parameters
    ----------
    model, machine
        What is trained, on which GPU; or their names in the catalog.
    strategy, global_batch
        How the model is split, or a row of `search`'s tables; the batch [sequences].
    options, runtime
        How the software runs a step, and what it overlaps. None: the newest runtime for the GPU.
    iterations
        Number of steps in a row.
    one_replica
        Build only one rank of each stage; it and its groups stand for all ranks of the stage. Exact where all take the
        same time.

    Returns
    -------
    The graph.

    Raises
    ------
    ValueError
        As `Strategy.check`; for a machine on a fabric; for tensor ranks in several HB domains; for one_replica where
        replicas lie differently.
    """
    model, machine, strategy = as_model(model), as_machine(machine), as_strategy(strategy)
    runtime = as_runtime(runtime, machine)
    machine.off_fabrics("simulated steps")
    chunks = strategy.pipeline * strategy.interleave
    layers = -(-model.layers // chunks) * chunks
    warnings: tuple[str, ...] = ()
    if layers > model.layers:
        more = layers / model.layers - 1
        warnings = (f"{model.layers} layers do not fill {chunks} chunks: the step has {layers}, {more:.1%} more.",)
        model = replace(model, layers=layers)
    warnings += strategy.check(model, global_batch)
    if uneven := _uneven_groups(machine, strategy):
        warnings += (
            f"Groups of {' and '.join(uneven)} ranks lie unevenly in HB domains of {machine.hb_domain_size:,}: those "
            "with the fewest ranks in a domain set the time of all, so that the step is too long, not too short.",
        )
    tensor, size = strategy.group_levels()["tensor"], machine.hb_domain_size
    if tensor.in_domains(size)[1] > 1 or tensor.lie_unevenly(size):
        first = strategy.order[0] == "tensor"
        raise ValueError(
            f"tensor is {strategy.tensor} with hb_domain_size {size}"
            + (": give a divisor of it" if first else f" and order {strategy.order}: give an order with tensor first")
            + ", since tensor traffic is taken to stay in the HB domain"
        )
    program = StageProgram(model, machine, strategy, global_batch, options, runtime)
    for iteration in range(iterations):
        program.add_iteration(iteration)
    if program.memory_bytes > machine.memory_bytes:
        needed, there = (units.show(size, "B", 3) for size in (program.memory_bytes, machine.memory_bytes))
        warnings += (f"The step needs {needed} of memory, a GPU has {there}: take more GPUs for the model.",)
    return _instances(program, iterations, one_replica, warnings)


class _Sizes(NamedTuple):
    """Load of an operation on the links: fields of `Workload`."""

    link: int
    seconds: float
    least_s: float = 0.0
    sent_bytes: float = 0.0
    ring_bytes: float = 0.0
    steps: int = 0
    ring_steps: int = 0


def _collective_sizes(operation: Operation, machine: Machine, x: int, y: int) -> _Sizes:
    """Bytes and steps of a collective with x ranks in each of y HB domains. Rings run on x rails at once."""
    D = operation.message_bytes
    if y == 1:
        if (seconds := operation.seconds) is None:
            seconds = (1 + (operation.operation == "all_reduce")) * float(machine.gather_links(D, x, 1).time_s)
        return _Sizes(LINKS.index("hb"), seconds)
    if operation.operation == "all_to_all":
        (sent, around), steps = (D * (y - 1) / y, D * (y - 1) / 2), (1, y - 1)
    else:
        sent = float(steps_and_bytes(operation.operation, "ring", D, x * y)[1])
        around, twice = sent / x, 2 if operation.operation == "all_reduce" else 1
        steps = (twice * (y - 1).bit_length(), twice * (y - 1))
        return _Sizes(LINKS.index("rail"), 0.0, sent / machine.collective_hb_Bps, around, around, *steps)
    return _Sizes(LINKS.index("rail"), 0.0, sent / machine.collective_hb_Bps, sent, around, *steps)


def _hop_sizes(operation: Operation, machine: Machine, same_domain: bool) -> _Sizes:
    size, hb = operation.message_bytes, machine.collective_hb_Bps
    if same_domain:
        return _Sizes(LINKS.index("hb"), machine.links.hb_latency_s + size / hb)
    return _Sizes(LINKS.index("rail"), 0.0, size / hb, size, size, 1, 1)


def _instances(program: StageProgram, iterations: int, one_replica: bool, warnings: tuple[str, ...]) -> Workload:
    """The stages' program on every replica, or on the first alone."""
    strategy, machine = program.strategy, program.machine
    size, stage_ranks = machine.hb_domain_size, strategy.groups("pipeline")  # [replica, stage]
    if one_replica and (uneven := differing_replicas(machine, strategy)):
        raise ValueError(f"one_replica is True, but {uneven}: give one_replica=False")
    here = 1 if one_replica else len(stage_ranks)
    replicas = {  # of each group of the first stage, and so of every stage
        kind: _replicas_of_groups(strategy, kind)
        for kind in ("tensor", "context", "expert", "replica", "expert_replica")
    }
    place = {kind: np.argsort(rows.ravel()) // rows.shape[1] for kind, rows in replicas.items()}  # group of a replica
    fields: dict[str, list] = {name: [] for name in ("program", "ranks", "after", *_Sizes._fields)}
    computed: dict[tuple, _Sizes] = {}

    def sizes_of(operation: Operation, ranks: tuple[int, ...]) -> _Sizes:
        """Sizes of an operation; those of equal collectives are computed once."""
        if operation.group == "rank":
            return _Sizes(LINKS.index("gpu"), float(operation.seconds or 0.0))
        together = ranks[0] // size == ranks[-1] // size
        if operation.group == "hop":
            return _hop_sizes(operation, machine, together)
        spread = ((2, 1) if together else (1, 2)) if operation.group == "ends" else program.spread[operation.group]
        alike = operation.operation, spread, operation.message_bytes, operation.seconds
        if alike not in computed:
            computed[alike] = _collective_sizes(operation, machine, *spread)
        return computed[alike]

    instances: list[list[int]] = []  # by number in the program and replica: the operation
    for number, operation in enumerate(program.operations):
        if operation.group in replicas:
            rows = replicas[operation.group][: 1 if one_replica else None]
            of_replica = place[operation.group][:here]
            members = stage_ranks[rows, operation.stage].tolist()
        else:
            of_replica = np.arange(here)
            stages = {"rank": [operation.stage], "hop": [operation.source, operation.target], "ends": [0, -1]}
            members = stage_ranks[:here, stages.get(operation.group, slice(None))].tolist()
        instances.append((len(fields["program"]) + of_replica).tolist())
        for ranks in map(tuple, members):
            fields["program"].append(number)
            fields["ranks"].append(ranks)
            for name, value in zip(_Sizes._fields, sizes_of(operation, ranks), strict=True):
                fields[name].append(value)
    for number, before in enumerate(program.after):
        waits: dict[int, set[int]] = {}
        for replica, op in enumerate(instances[number]):
            waits.setdefault(op, set()).update(instances[earlier][replica] for earlier in before)
        fields["after"] += [tuple(sorted(ops)) for ops in waits.values()]
    simulated = frozenset(stage_ranks[:here].ravel().tolist())
    return Workload(
        program.model,
        machine,
        strategy,
        program.global_batch,
        iterations,
        program.operations,
        simulated=simulated,
        warnings=warnings,
        **fields,
    )


def _replicas_of_groups(strategy: Strategy, kind: str) -> np.ndarray:
    """Groups of a kind in a pipeline stage [groups, members], each rank by its replica: the row of its pipeline."""
    pipelines, ranks = strategy.groups("pipeline"), strategy.groups(kind)
    replica = np.full(strategy.gpus, -1)
    replica[pipelines[:, 0]] = np.arange(len(pipelines))
    return replica[ranks[replica[ranks[:, 0]] >= 0]]


def differing_replicas(machine: Machine, strategy: Strategy) -> str:
    """Why replicas take different times, as a text. Empty where one replica can stand for all."""
    size, levels = machine.hb_domain_size, strategy.group_levels()
    apart = int(levels["pipeline"].inner_stride)  # GPUs from a stage to the next
    if strategy.pipeline > 1 and apart % size and size % apart:
        fills = size // math.gcd(strategy.tensor * strategy.context, size)
        more = strategy.data // fills * fills + fills
        counts = f"{more - fills} or {more}" if more > fills else f"{more}"
        last = strategy.order[-1] == "pipeline"
        return (
            f"{apart} ranks of a stage do not fill HB domains of {size}, so that some hops change rails"
            + f" (data {counts} would)" * last
        )
    if strategy.pipeline > 1 and apart < size < apart * strategy.pipeline:
        return f"{size // apart} stages share an HB domain of {size}, so that hops change rails"
    if uneven := _uneven_groups(machine, strategy):
        return f"groups of {', '.join(uneven)} ranks lie unevenly in HB domains of {size}"
    return ""


def _uneven_groups(machine: Machine, strategy: Strategy) -> list[str]:
    """Kinds of groups of which some have more ranks in an HB domain than others."""
    levels = strategy.group_levels()
    kinds = ["tensor", "context", "replica", *(["expert", "expert_replica"] if strategy.expert > 1 else []), "pipeline"]
    return [kind for kind in kinds if levels[kind].lie_unevenly(machine.hb_domain_size)]
