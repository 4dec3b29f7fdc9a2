"""The networks of nwktimes2025's primer on parallelism on its GPUs, run, and the tables under Fig. 1-7 to 1-13.

The document prints the widths of the networks in Fig. 1-9 and 1-10, and those of their inputs alone in Fig. 1-7 and
1-12; no weights. Weights, inputs and the other widths are examples: parameters of the notebook. Readings:

- GPUs are numbered as printed: tensor ranks first, then stages, then replicas. GPU0 and GPU2 are "TP Rank 1".
- A "DP group" of the document is one replica with all its tensor ranks and stages, GPU0 to GPU3. Elsewhere, and in
  `Strategy`, a data-parallel group is the ranks that hold the same weights in each replica: GPU0 and GPU4.
- x1 to x16 of Fig. 1-12 are samples, x1 to x3 of Fig. 1-7 are features of one sample.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from railcore.catalog.units import counted, number, show
from railcore.training.parallelism import Strategy
from suite.emulator.collective_schedules import collective_schedule
from suite.emulator.comparison import EmulatedRun, emulated_run, largest_difference
from suite.emulator.feedforward import FeedForward
from suite.emulator.ranks import PHASES, EmulatedRanks, TransferLabel
from suite.emulator.timeline import RankTimeline, rank_timeline
from suite.ledger import claims

ORDER = ("tensor", "context", "pipeline", "data")  # of the document's GPU numbers, the fastest first
NODE_GPUS = 2  # of Fig. 1-7
PRIMER_WIDTHS = (4, 3, 2, 1)  # of Fig. 1-9
TENSOR_WIDTHS = (8, 4)  # of Fig. 1-10
LEARNING_RATE = 0.1  # of the example in the text
LAYER_NOTE = "number in a box: layer"  # of what `step_events` writes there
PASSED = "outputs to the next layer, on the same GPU (no transfer)"
FP32_BYTES = np.dtype(np.float32).itemsize
_SAMPLES, _MICROBATCH, _INPUTS_1_7 = 16, 4, 3
_DIGITS, _DECIMALS, _MOST_SHOWN = 3, 1, 4
_EQUAL = 1e-12  # difference below which sums of another order are the same
_HOW = {"scale-up": "DMA", "scale-out": "RDMA"}


def chain_run(neurons: Sequence[int], seed: int = 0, learning_rate: float = LEARNING_RATE) -> EmulatedRun:
    """Fig. 1-7 and 1-8: four layers on two nodes of two GPUs, three inputs, one sample, one training step.

    neurons: of the four layers. Raises ValueError for another number of layers.
    """
    if len(neurons) != 2 * NODE_GPUS:
        raise ValueError(f"neurons is {list(neurons)}: give those of {2 * NODE_GPUS} layers, one on each GPU")
    return _run((_INPUTS_1_7, *neurons), Strategy(pipeline=len(neurons)), 1, NODE_GPUS, learning_rate, seed)


def layers_run(hb_domain_size: int, seed: int = 0, learning_rate: float = LEARNING_RATE) -> EmulatedRun:
    """Fig. 1-9: the 4-3-2-1 network on three GPUs of one node or of three, one sample, one training step."""
    stages = len(PRIMER_WIDTHS) - 1
    return _run(PRIMER_WIDTHS, Strategy(pipeline=stages), 1, hb_domain_size, learning_rate, seed)


def tensor_run(seed: int = 0) -> EmulatedRun:
    """Fig. 1-10 and 1-11: one layer of 4 x 8 weights on two GPUs, the forward pass of one sample."""
    return _run(TENSOR_WIDTHS, Strategy(tensor=2), 1, 2, None, seed)


def three_d_run(width: int, hb_domain_size: int, seed: int = 0, learning_rate: float = LEARNING_RATE) -> EmulatedRun:
    """Fig. 1-12 and 1-13: four layers on eight GPUs, two each of tensor ranks, stages and replicas, 16 samples.

    Parameters
    ----------
    width
        Features of a sample, and neurons of each layer.
    hb_domain_size
        GPUs of a node.
    seed, learning_rate
        Of weights and samples; of the update.

    Returns
    -------
    A training step.
    """
    strategy = Strategy(tensor=2, pipeline=2, data=2, micro_batch=_MICROBATCH, order=ORDER)
    return emulated_run(FeedForward([width] * 5), strategy, _SAMPLES, hb_domain_size, learning_rate, seed)


def _run(
    widths: Sequence[int], strategy: Strategy, samples: int, node: int, rate: float | None, seed: int
) -> EmulatedRun:
    return emulated_run(FeedForward(widths), strategy, samples, node, rate, seed, decimals=_DECIMALS)


def node_names(run: EmulatedRun) -> list[str]:
    """GPUs counted within their node, as in Fig. 1-7: "Node-1 GPU0"."""
    nodes = run.ranks.nodes
    return [f"Node-{node + 1} GPU{rank - np.flatnonzero(nodes == node)[0]}" for rank, node in enumerate(nodes)]


def neuron_table(run: EmulatedRun) -> pd.DataFrame:
    """Numbers of each neuron in a training step of one sample: a row for each.

    Columns gpu (rank), layer, neuron, weights, z, y, delta, gradient, updated; weights, gradient and updated are lists
    with an entry for each input.
    """
    assert run.step is not None
    rows, before, neuron = [], run.inputs, 0
    for layer, (weights, outputs) in enumerate(zip(run.weights, run.step.outputs, strict=True), start=1):
        z, deltas = weights @ before, run.step.deltas[layer - 1]
        for row, rank in enumerate(np.repeat(run.sharded.group(layer), len(weights) // run.strategy.tensor)):
            neuron += 1
            forward = (weights[row], z[row, 0], outputs[row, 0], deltas[row, 0])
            after = (run.step.gradients[layer - 1][row], run.step.weights[layer - 1][row])
            rows.append((int(rank), layer, f"n{neuron}", *forward, *after))
        before = outputs
    columns = ["gpu", "layer", "neuron", "weights", "z", "y", "delta", "gradient", "updated"]
    return pd.DataFrame(rows, columns=columns)


def chain_cells(run: EmulatedRun, phase: str, names: Sequence[str], nodes: bool = True) -> pd.DataFrame:
    """What `chain_diagram` writes on GPUs that hold a layer each: columns gpu, node, heading, neuron, text.

    Parameters
    ----------
    run, phase
        A training step of one sample, and its pass: "forward" or "backward".
    names
        Of the ranks.
    nodes
        Whether names begin with a node, which is drawn; without, headings have the bytes of the weights.

    Returns
    -------
    A row for each neuron; `forward_key` and `backward_key` explain the symbols of its text.
    """
    rows = []
    for row in neuron_table(run).itertuples():
        shape = " x ".join(map(str, run.network.shapes[row.layer - 1]))
        node, _, gpu = names[row.gpu].partition(" ") if nodes else ("", "", names[row.gpu])
        width = run.network.shapes[row.layer - 1][0]
        size = "" if nodes else f" ({number(len(row.weights) * width * run.ranks.element_bytes)} B)"
        text = f"w  {_shown(*row.weights)}\n"
        if phase == "forward":
            text += f"z  {_shown(row.z)}   y  {_shown(row.y)}"
        else:
            text = f"y  {_shown(row.y)}   δ  {_shown(row.delta)}\n{text}"
            text += f"g  {_shown(*row.gradient)}\nw'  {_shown(*row.updated)}"
        rows.append((names[row.gpu], node, f"{gpu}: layer {row.layer}, weights {shape}{size}", row.neuron, text))
    return pd.DataFrame(rows, columns=["gpu", "node", "heading", "neuron", "text"])


def _shown(*values: float, digits: int = _DIGITS) -> str:
    """Numbers side by side, no more than fit a box: the CSV has all."""
    shown = values if len(values) <= _MOST_SHOWN else values[: _MOST_SHOWN - 1]
    return ", ".join([number(value + 0.0, digits) for value in shown] + ["..."] * (len(shown) < len(values)))


def stage_transfers(run: EmulatedRun, phase: str, names: Sequence[str]) -> pd.DataFrame:
    """Sends between stages of a pass, as logged: columns source, target, link, elements, bytes, text."""
    log = run.ranks.log
    sent = log[(log["kind"] == "pipeline") & (log["phase"] == phase)].reset_index(drop=True)
    elements = (sent["bytes"] / run.ranks.element_bytes).astype(int)
    what = "activations" if phase == "forward" else "deltas"
    texts = [
        f"{count} {what}, {number(size)} B\n{link} ({_HOW[link]})"
        for count, size, link in zip(elements, sent["bytes"], sent["link"], strict=True)
    ]
    ends = {end: [names[rank] for rank in sent[end]] for end in ("source", "target")}
    return pd.DataFrame({**ends, "link": sent["link"], "elements": elements, "bytes": sent["bytes"], "text": texts})


def placed_transfers(runs: Sequence[EmulatedRun], names: Sequence[str]) -> pd.DataFrame:
    """Forward sends of one network in several placements: as `stage_transfers`, the links of all in the text."""
    tables = [stage_transfers(run, "forward", names) for run in runs]
    first = tables[0]
    links = [
        "\n".join(
            f"{'one node' if len(set(run.ranks.nodes)) == 1 else 'a node each'}: {table['link'][i]}"
            f" ({_HOW[table['link'][i]]})"
            for run, table in zip(runs, tables, strict=True)
        )
        for i in range(len(first))
    ]
    texts = [
        f"{row.elements} activations, {number(row.bytes)} B\n{link}"
        for row, link in zip(first.itertuples(), links, strict=True)
    ]
    every = pd.concat([t.assign(nodes=len(set(run.ranks.nodes))) for run, t in zip(runs, tables, strict=True)])
    transfers = first.assign(link="either", text=texts)
    transfers.attrs["placements"] = every.drop(columns="text")
    return transfers


def input_texts(run: EmulatedRun) -> list[str]:
    """The inputs of the first sample, such as "x1 = 0.7"."""
    return [f"x{i} = {_shown(value)}" for i, value in enumerate(run.inputs[:, 0], start=1)]


def prediction_text(run: EmulatedRun) -> str:
    """What the last GPU puts out in a training step of one sample, what it should be, and the loss."""
    assert run.step is not None
    return (
        f"prediction {_shown(*run.step.outputs[-1][:, 0], digits=4)}\ntarget {_shown(*run.targets[:, 0])}\n"
        f"loss {_shown(run.step.loss)}"
    )


def forward_key(run: EmulatedRun) -> list[str]:
    """Lines that explain the symbols of a forward pass."""
    mean = "mean of " * (len(run.targets) > 1)
    return [
        "x input; w weights of a neuron, one for each input; z weighted sum of its inputs; "
        "y = ReLU(z) = max(z, 0) its output, an activation",
        f"loss = {mean}(prediction - target)²; FP32, {number(run.ranks.element_bytes)} B for each weight and "
        "activation. Weights, inputs and target are examples of ours.",
    ]


def backward_key(run: EmulatedRun) -> list[str]:
    """Lines that explain the symbols of a backward pass, with the learning rate."""
    rate, outputs = _shown(run.learning_rate or 0.0), len(run.targets)
    share = f" / {outputs}" * (outputs > 1)
    return [
        f"y output; w weights; δ error of a neuron: 2 (prediction - target){share} in the last layer, before it the "
        "sum of w δ over the neurons that get its y; 0 where y = 0",
        f"g gradient of each weight: δ times the input of that weight, a y of the layer before, or x; "
        f"w' weights after the update: w' = w - {rate} g, learning rate {rate}",
    ]


def peer_note(run: EmulatedRun) -> tuple[str, str]:
    """With whom the document lets GPU0 exchange its part in Fig. 1-11, and ours: a mark's text and verdict, or ""."""
    name, (first, peer, *_) = "nwktimes2025.fig1_11.tensor_peer", run.sharded.group(1)
    text = f"GPU{first} synchronizes with GPU{number(claims.paper_value(name))}, but its Fig. 1-10 "
    text += f"has the other half on GPU{peer}"
    return next(((text, mark.verdict) for mark in claims.marks({name: float(peer)}).values()), ("", ""))


def chain_data(
    run: EmulatedRun, phase: str, names: Sequence[str], transfers: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The numbers under a figure of layers in a chain: a row for each neuron, then for each transfer.

    Parameters
    ----------
    run, phase, names
        As in `chain_cells`.
    transfers
        Of the figure, by default `stage_transfers`.

    Returns
    -------
    Columns table ("neurons", "transfers"), those of `neuron_table` that the pass computes, and those of the transfers.
    """
    table = neuron_table(run)
    table["gpu"] = [names[rank] for rank in table["gpu"]]
    for name in ("weights", "gradient", "updated"):
        table[name] = [" ".join(f"{value + 0.0:.10g}" for value in values) for values in table[name]]
    of_pass = ["weights", "z", "y"] if phase == "forward" else ["delta", "gradient", "weights", "updated"]
    if transfers is None:
        transfers = stage_transfers(run, phase, names)
    moved = transfers.attrs.get("placements", transfers).drop(columns="text", errors="ignore")
    neurons = table[["gpu", "layer", "neuron", *of_pass]]
    return pd.concat([neurons.assign(table="neurons"), moved.assign(table="transfers")], ignore_index=True)


def split_weights(run: EmulatedRun) -> pd.DataFrame:
    """Weights of one layer by GPU: columns gpu, neuron, input, value (of the input), weight, z, output (of neuron)."""
    rows = []
    for place, rank in enumerate(run.sharded.group(1)):
        held = run.ranks.held(rank, "weights 1")
        for row, weights in enumerate(held):
            name = f"n{place * len(held) + row + 1}"
            z = weights @ run.inputs[:, 0]
            output = float(run.network.activated(1, z))
            gpu = f"GPU{rank} (TP Rank {place + 1})"
            rows += [
                (gpu, name, f"x{i}", value, weight, z, output)
                for i, (value, weight) in enumerate(zip(run.inputs[:, 0], weights, strict=True), start=1)
            ]
    return pd.DataFrame(rows, columns=["gpu", "neuron", "input", "value", "weight", "z", "output"])


def gather_states(run: EmulatedRun) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The AllGather of Fig. 1-11 step by step: slots and sends as `gather_diagram` takes them.

    Bytes held are the memory log's of the layer's outputs: before, after, and when the parts are freed.
    """
    group = run.sharded.group(1)
    log = run.ranks.log[run.ranks.log["operation"] == "all_gather"]
    schedule = collective_schedule("all_gather", "ring", len(group))
    values = run.network.activated(1, run.weights[0] @ run.inputs)[:, 0]
    block_size = len(values) // len(group)
    held = [{place} for place in range(len(group))]
    states = [("partial outputs", [set(part) for part in held])]
    for count, step in enumerate(schedule, start=1):
        gained = [(send.target, set(send.blocks)) for send in step if isinstance(send.target, int)]
        for target, blocks in gained:
            held[target] |= blocks
        states.append((f"after step {count}", [set(part) for part in held]))
    states.append(("parts freed", states[-1][1]))
    bytes_held = _output_bytes(run)
    rows = []
    for stage, (title, owned) in enumerate(states):
        moment = {0: 0, len(states) - 2: 1, len(states) - 1: 2}.get(stage)
        for place, rank in enumerate(group):
            note = "" if moment is None else f"holds {number(bytes_held[rank][moment])} B of outputs"
            note += ", its part twice" * (moment == 1)
            for slot, value in enumerate(values):
                owner = slot // block_size
                text = f"n{slot + 1}\n{number(value + 0.0, _DIGITS)}" if owner in owned[place] else ""
                twice = owner == place and 0 < stage < len(states) - 1
                rows.append((title, f"GPU{rank}\nTP Rank {place + 1}", f"n{slot + 1}", text, owner, twice, note))
    names = {rank: f"GPU{rank}\nTP Rank {place + 1}" for place, rank in enumerate(group)}
    sends = pd.DataFrame(
        {
            "stage": [states[step][0] for step in log["step"]],
            "source": log["source"].map(names),
            "target": log["target"].map(names),
            "link": log["link"],
            "bytes": log["bytes"],
            "text": [f"{number(size)} B" for size in log["bytes"]],
        }
    )
    return pd.DataFrame(rows, columns=["stage", "gpu", "slot", "text", "owner", "twice", "note"]), sends


def gather_data(slots: pd.DataFrame, sends: pd.DataFrame) -> pd.DataFrame:
    """The numbers under Fig. 1-11: slots of each GPU and stage, then what is sent behind a stage."""
    table = pd.concat([slots.assign(table="slots"), sends.drop(columns="text").assign(table="sends")])
    return table.replace("\n", " ", regex=True)


def _output_bytes(run: EmulatedRun) -> dict[int, list[float]]:
    """Bytes of a layer's outputs on each rank after each change of them."""
    changes = run.ranks.memory
    of_layer = changes[changes["name"].str.contains("partial output 1|activation 1", regex=True)]
    return {int(rank): rows["bytes"].cumsum().to_list() for rank, rows in of_layer.groupby("rank")}


def three_d_names(run: EmulatedRun) -> list[str]:
    """Lanes of Fig. 1-12: GPU, the document's TP rank, and its layers."""
    places = run.strategy.coordinates(np.arange(run.strategy.gpus))
    names = []
    for rank in range(run.strategy.gpus):
        layers = [i + 1 for i, stage in enumerate(run.sharded.stages) if stage == places["pipeline"][rank]]
        span = f"layers {layers[0]}-{layers[-1]}" if len(layers) > 1 else f"layer {layers[0]}"
        names.append(f"GPU{rank}: TP Rank {places['tensor'][rank] + 1}\n{span}")
    return names


def three_d_groups(run: EmulatedRun) -> list[list[str]]:
    """Brackets beside the lanes of Fig. 1-12: the document's DP group, a replica, and the node of each GPU."""
    replicas = run.strategy.coordinates(np.arange(run.strategy.gpus))["data"]
    size = run.inputs.shape[1] // run.strategy.data
    groups = [f"DP group {i + 1}: x{i * size + 1}-x{(i + 1) * size}" for i in replicas]
    return [groups, [f"Node {node + 1}" for node in run.ranks.nodes]]


def three_d_title(run: EmulatedRun, what: str, item: str) -> str:
    """Title of Fig. 1-12 and 1-13: what, how its network is split over how many GPUs and nodes, and the figure."""
    split, nodes = run.strategy, len(set(run.ranks.nodes))
    parts = ((split.tensor, "tensor ranks"), (split.pipeline, "pipeline stages"), (split.data, "replicas"))
    parted = " x ".join(counted(count, name) for count, name in parts)
    return f"{what}, 3D parallelism: {counted(split.gpus, 'GPUs')} on {counted(nodes, 'nodes')}, {parted} ({item})"


def times_note(scale_up_time: float, scale_out_time: float) -> str:
    """What a timeline assumes of transfers: their time over that of a layer."""
    step = f"a step of a scale-up transfer takes {scale_up_time:g} of a layer's time"
    return f"Assumed: {step}, scale-out {scale_out_time:g}"


def step_note(run: EmulatedRun) -> str:
    """What `with_inputs` writes into boxes."""
    return (
        f"1a L1: x1-x{run.strategy.micro_batch} = step 1a, layer 1, inputs of the micro-batch. a: computation, "
        "b: AllGather, c: outputs to the next layer.\nSteps count alike on all GPUs"
    )


def with_inputs(events: pd.DataFrame, run: EmulatedRun) -> pd.DataFrame:
    """Events of `step_events` with layer and inputs in the text of each computation: "1a L1: x1-x4"; and steps c.

    A layer passes its outputs to the next layer on the same GPUs (step c) without a transfer, at one moment.
    """
    rows, data = events["what"] == "compute", run.strategy.coordinates(np.arange(run.strategy.gpus))["data"]
    samples_each, size = run.inputs.shape[1] // run.strategy.data, run.strategy.micro_batch
    first = data[events["rank"]] * samples_each + events["microbatch"] * size + 1
    inputs = [f" L{layer}: x{start}-x{start + size - 1}" for layer, start in zip(events["layer"], first, strict=True)]
    stages = run.sharded.stages
    within = [layer < len(stages) and stages[layer] == stages[layer - 1] for layer in events["layer"]]
    passed = events[np.array(within) & (events["kind"] == "tensor")]
    steps = passed["text"].str.removesuffix("b") + "c"
    passed = passed.assign(what="pass", series=PASSED, text=steps, start=passed["end"])
    texts = events["text"] + np.where(rows, inputs, "")
    return pd.concat([events.assign(text=texts), passed], ignore_index=True)


def all_reduce_identity(counts: Sequence[int], seed: int = 0) -> pd.DataFrame:
    """ReduceScatter and AllGather of a buffer, performed rank by rank, against NumPy's sum and one AllReduce.

    Columns ranks, rank, buffer_bytes, sent_bytes (of both phases), all_reduce_bytes (that the rank sends in one
    AllReduce), formula_bytes (2 (n - 1) / n of the buffer), result_error (relative, against the sum).
    """
    rows, label = [], TransferLabel("after", "data")
    for n in counts:
        rng = np.random.default_rng(seed + n)
        buffers, group = [rng.normal(size=6 * n) for _ in range(n)], range(n)
        wanted = np.sum(buffers, axis=0)
        two, one = (EmulatedRanks(n, n, element_bytes=FP32_BYTES) for _ in range(2))
        results = two.all_gather(group, two.reduce_scatter(group, buffers, label), label)
        one.all_reduce(group, buffers, label)
        sent, once = (ranks.log.groupby("source")["bytes"].sum() for ranks in (two, one))
        for rank, result in enumerate(results):
            error = float(np.abs(result - wanted).max() / np.abs(wanted).max())
            size = wanted.size * FP32_BYTES
            rows.append((n, rank, size, sent[rank], once[rank], 2 * (n - 1) / n * size, error))
    columns = ["ranks", "rank", "buffer_bytes", "sent_bytes", "all_reduce_bytes", "formula_bytes", "result_error"]
    return pd.DataFrame(rows, columns=columns)


def run_text(run: EmulatedRun) -> str:
    """A training step in words: what splits it, whether it equals that of one rank, which ranks send most."""
    numbers, log = largest_difference(run), run.ranks.log
    same = "the same weights" if numbers < _EQUAL else f"weights that differ by up to {numbers:.1g} from those"
    sends, advice = "sends nothing", "Split it to see what the ranks send each other"
    total = float(log["bytes"].sum())
    if total:
        kinds = log.groupby("kind")["bytes"].sum()
        most = kinds.idxmax()
        sends = f"{most} parallelism sends most ({kinds[most] / total:.1%})"
        advice = "Keep the ranks that send most in a node"
    return (
        "Tensor ranks share the neurons of each layer, pipeline stages the layers, data-parallel ranks the samples. "
        f"So split over {counted(run.strategy.gpus, 'GPUs')}, the small network ends a training step with {same} as on "
        f"one GPU, and {sends}. {advice}."
    )


def own_timeline(
    run: EmulatedRun, scale_up_time: float, scale_out_time: float
) -> tuple[pd.DataFrame, list[str], str, str]:
    """Events with their layers, names of the ranks, title and note of a run's timeline, as `rank_gantt` takes them.

    scale_up_time, scale_out_time: of a step of a transfer, over the time of a layer.
    """
    line = rank_timeline(run.ranks, scale_up_time=scale_up_time, scale_out_time=scale_out_time)
    out = run.ranks.log.groupby("link")["bytes"].sum()
    title = f"idle share {number(100 * line.idle_share, 3)}%; " + ", ".join(
        f"{link} {show(n, 'B', 4)}" for link, n in out.items()
    )
    events = step_events(line, PHASES)
    events["text"] = events["layer"].astype(str)
    names = [f"GPU{rank}, node {node + 1}" for rank, node in enumerate(run.ranks.nodes)]
    return events, names, title, LAYER_NOTE


def step_events(line: RankTimeline, phases: Sequence[str]) -> pd.DataFrame:
    """Lanes of a timeline in some passes, from time 0 on, as `rank_gantt` takes them.

    text: in the forward pass the document's step, such as 1a computation, 1b AllGather, 1c to the next layer; else the
    layer. series: what is drawn in one colour.
    """
    lanes = line.lanes[line.lanes["phase"].isin(phases)]
    letters = {"compute": "a", "tensor": "b", "pipeline": "c"}
    texts = [
        f"{row.step}{letters[row.kind]}" if row.phase == "forward" else f"{row.layer}" for row in lanes.itertuples()
    ]
    series = [
        f"micro-batch {row.microbatch + 1}" if row.what == "compute" else _SERIES[row.phase, row.kind]
        for row in lanes.itertuples()
    ]
    first = lanes["start"].min()
    moved = {"start": lanes["start"] - first, "end": lanes["end"] - first}
    return lanes.assign(text=texts, series=series, **moved).drop(columns="ranks").reset_index(drop=True)


_SERIES = {
    ("forward", "tensor"): "AllGather of outputs, within a DP group",
    ("forward", "pipeline"): "outputs to the next layer, on other GPUs of the group",
    ("backward", "tensor"): "AllReduce of deltas, within a replica",
    ("backward", "pipeline"): "deltas to the stage before",
    ("after", "data"): "AllReduce of gradients, across replicas",
}
