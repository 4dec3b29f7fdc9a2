"""The time of an iteration from the costs of a layer and of a stage: the model, as one would explain it.

A pipeline of p stages passes m micro-batches. The fullest stage sets the pace. It works on its n layers forward and
backward, exchanges what is sharded, sends to its neighbours, and computes the logits. Then:

    T = m (passes + exchanges of every pass + hops + logits) + bubble + exchanges once an iteration
        + optimizer step + what is done once + waiting for the slowest GPU

Compute hides communication as far as the software overlaps the two, and as far as the links are free: kinds of traffic
take turns on a link. Hidden communication slows the compute beside it.

`critical_path` uses + - * / min max and ceil alone, and reads its inputs as fields. NumPy evaluates it for arrays of
strategies, Numba compiles it for one at a time: a search has the same bits on every CPU.

Source: railonly2025, Iteration Time Modeling; Narayanan et al. 2021, arXiv:2104.04473, Section 2.2.
"""

from typing import Any, NamedTuple

import numpy as np

from railcore.compiled import Arithmetic, larger, smaller
from railcore.training.pipeline_schedule import LAYERS_IN_MEMORY

_LAYER_NUMBERS = (
    *("forward_s", "backward_s", "compute_s", "forward_hb_s", "forward_nic_s", "backward_hb_s", "backward_nic_s"),
    *("weights_s", "logits_s", "logits_hb_s", "logits_nic_s"),
    *("boundary_bytes", "boundary_s", "boundary_hb_s", "boundary_nic_s"),
    *("again_s", "again_hb_s", "again_nic_s"),
    *("kept_bytes", "spared_bytes", "working_bytes", "logits_bytes"),
)
EXCHANGES = ("in_forward", "in_backward", "after", "before")
_STAGE_NUMBERS = (
    *("layers", "first_layers", "last_layers", "spare_layers", "logits_share", "first_flight", "middle_flight"),
    *("last_flight", "fill_passes", "fill_backward", "fill_hops"),
    *("fill_weights", "fill_weights_each", "hops_hide", "hop_Bps", "hop_latency_s", "hop_on_nic"),
    *("optimizer_s", "offload_s", "once_s", "copies_s", "streamed_bytes"),
    *(f"{name}_{link}" for name in EXCHANGES for link in ("s", "hb_s", "nic_s")),
    *("first_bytes", "middle_bytes", "last_bytes", "spread"),
)
LAYER_ROW = np.dtype([(name, float) for name in _LAYER_NUMBERS])
STAGE_ROW = np.dtype([(name, float) for name in _STAGE_NUMBERS])
SETTING = np.dtype(
    [(name, float) for name in ("overlap_data", "interference", "contends", "memory_bytes", "reserved_bytes")]
    + [(name, float) for name in ("host_Bps", "offload_activations")]
)
NETWORK, MEMORY = 1, 2  # bits of what rules out a strategy that divides


class CriticalPath(NamedTuple):
    """An iteration of one strategy, or of arrays of them: seconds, and bytes on the fullest GPU.

    total_s = m (passes of the layers, data_pass_s and offload_pass_s + hops_s + logits_s) + bubble_s + data_once_s +
    optimizer_s + offload_s + once_s + straggler_s.

    microbatches: m.
    hb_s, nic_s: how long a GPU's links are busy.
    hops_link_s: time of the pipeline's hops, hidden or not.
    memory_bytes, activation_bytes: of the fullest stage.
    fullest: 0, 1 or 2 where the first, a middle or the last stage needs most memory.
    short: bits of what is missing, NETWORK and MEMORY.
    """

    total_s: Any
    memory_bytes: Any
    short: Any
    microbatches: Any
    hops_link_s: Any
    hops_s: Any
    logits_s: Any
    data_pass_s: Any
    data_once_s: Any
    offload_pass_s: Any
    bubble_s: Any
    straggler_s: Any
    hb_s: Any
    nic_s: Any
    fullest: Any
    activation_bytes: Any


@Arithmetic
def critical_path(
    layer: Any, stage: Any, setting: Any, b: Any, p: Any, d: Any, v: Any, batch: Any, recomputed: Any
) -> CriticalPath:
    """The time of an iteration, its memory, and busy times of its links.

    Parameters
    ----------
    layer, stage, setting
        Records (rows of LAYER_ROW and STAGE_ROW, one of SETTING), or arrays of records.
    b, p, d, v, batch
        Sequences of a micro-batch, pipeline stages, data ranks, chunks of a stage, and sequences of an iteration.
    recomputed
        Layers of a stage for which the recompute of `layer` is meant: n for all.

    Returns
    -------
    Seconds and bytes, of the arguments' shape.
    """
    n, m = stage.layers, np.ceil(batch / (d * b))
    per_layer, per_chunk = 1 / n, 1 / v  # divisions are what a search spends most of its time on
    # `least` is never hidden: 1 / n, as one layer has nothing beside it, and interference (1 - 1 / n). With
    # memory contention compute loses only while the HB interconnect is busy.
    slowed = setting.interference * (1 - per_layer)
    least, slows_on_hb = per_layer + slowed * (1 - setting.contends), slowed * setting.contends
    others = n - recomputed  # layers that keep all, as without recompute

    # 1. One micro-batch in the fullest stage: its n layers forward and backward, with the exchanges of every pass.
    # All layers but one hide these exchanges, as far as other traffic leaves the links free. Activations on their way
    # to the host and back, and weights from it, are hidden by the pass that makes or needs them.
    forward, backward = n * layer.forward_s, n * layer.backward_s - others * layer.again_s
    forward_nic, backward_nic = n * layer.forward_nic_s, n * layer.backward_nic_s - others * layer.again_nic_s
    forward_hb, backward_hb = n * layer.forward_hb_s, n * layer.backward_hb_s - others * layer.again_hb_s
    hiding = setting.overlap_data * (n - 1) * per_layer
    data_forward = larger(
        larger(stage.in_forward_s - hiding * forward, stage.in_forward_s * least + stage.in_forward_hb_s * slows_on_hb),
        larger(
            stage.in_forward_nic_s - hiding * (forward - forward_nic),
            stage.in_forward_hb_s - hiding * (forward - forward_hb),
        ),
    )
    beyond_backward = larger(
        stage.in_backward_s - hiding * backward,
        larger(
            stage.in_backward_nic_s - hiding * (backward - backward_nic),
            stage.in_backward_hb_s - hiding * (backward - backward_hb),
        ),
    )
    least_backward = stage.in_backward_s * least + stage.in_backward_hb_s * slows_on_hb
    data_backward = larger(beyond_backward, least_backward)
    kept = n * layer.kept_bytes + others * layer.spared_bytes
    away_s = (setting.offload_activations * kept + stage.streamed_bytes) / setting.host_Bps
    pass_forward = larger(forward + data_forward, away_s)
    pass_backward = larger(backward + data_backward, away_s)
    passes = pass_forward + pass_backward + stage.copies_s
    offload = (pass_forward - (forward + data_forward)) + (pass_backward - (backward + data_backward))
    nic = forward_nic + backward_nic + stage.in_forward_nic_s + stage.in_backward_nic_s
    hb = forward_hb + backward_hb + stage.in_forward_hb_s + stage.in_backward_hb_s

    # 2. Hops: two a chunk, one forward, one backward; a stage sends and receives at once. Other chunks hide them while
    # the links are free. The last stage may have fewer layers, which hide less.
    several = 1.0 * (p > 1)
    on_link = 2 * v * several * layer.boundary_bytes / stage.hop_Bps
    hops = 2 * v * several * (stage.hop_latency_s + layer.boundary_s) + on_link
    hop_hb = (1 - stage.hop_on_nic) * on_link + 2 * v * several * layer.boundary_hb_s
    free = passes - larger(nic, hb)
    most_hidden = (1 - setting.interference) * hops
    hidden = stage.hops_hide * smaller(free, most_hidden)
    spare = stage.spare_layers * per_layer
    shown = hidden - stage.hops_hide * smaller((1 - spare) * free, most_hidden)
    nic, hb = nic + stage.hop_on_nic * on_link + 2 * v * several * layer.boundary_nic_s, hb + hop_hb
    steady = passes + hops - hidden

    # 3. Logits and loss on the last stage, as far as they take longer than the layers that this stage has fewer. In a
    # pipeline from both ends (DualPipe) a rank with that stage has half of the micro-batches there.
    logits = larger(stage.logits_share * layer.logits_s - spare * passes + shown, 0.0)
    counted = m * logits / layer.logits_s  # micro-batches whose logits lengthen the path

    # 4. The pipeline fills and drains: the passes of the other stages, over the chunks, and their hops. From both ends
    # there are more backward passes, and weights' gradients fill a part: the time that a pass saves without them.
    gradients = n * layer.weights_s
    inputs = larger(backward - gradients + larger(beyond_backward + hiding * gradients, least_backward), away_s)
    bubble = stage.fill_passes * pass_forward + stage.fill_backward * (pass_backward + stage.copies_s)
    filled = smaller(m * stage.fill_weights_each, stage.fill_weights) * (pass_backward - inputs)
    bubble = bubble + stage.fill_hops * hops - filled

    # 5. Exchanges once an iteration, at the rate that other traffic leaves. Gradients leave after a chunk's last
    # backward pass, weights come before its first forward pass. The last stage may have fewer layers to hide them.
    per_pass = 1 / steady
    free_nic, free_hb = 1 - nic * per_pass, 1 - hb * per_pass
    passes_left = (1 + (v - 1) * smaller(p, m)) * per_chunk
    window = (1 - spare) * setting.overlap_data * steady / passes
    after = _exposed_once(
        stage.after_s,
        stage.after_hb_s,
        stage.after_nic_s,
        free_hb,
        free_nic,
        window * pass_backward,
        passes_left,
        per_chunk,
        stage.after_s * least + stage.after_hb_s * slows_on_hb,
    )
    before = _exposed_once(
        stage.before_s,
        stage.before_hb_s,
        stage.before_nic_s,
        free_hb,
        free_nic,
        window * pass_forward,
        passes_left,
        per_chunk,
        stage.before_s * least + stage.before_hb_s * slows_on_hb,
    )
    once = after + before

    # 6. All wait for the slowest GPU.
    compute = n * layer.compute_s - others * layer.again_s
    straggler = stage.spread * (m * (compute + logits) + stage.fill_passes * compute)
    total = m * (steady + logits) + bubble + once + stage.optimizer_s + stage.offload_s + stage.once_s + straggler

    # Memory of the fullest GPU: states, and activations of the micro-batches in flight (`microbatches_in_flight`).
    # Early stages have more of them, the ends fewer layers and embedding or logits.
    slot_bytes = LAYERS_IN_MEMORY * (layer.kept_bytes + (others > 0) * layer.spared_bytes) * setting.offload_activations
    on_gpu = 1 - setting.offload_activations
    kept_bytes, spared_bytes = on_gpu * layer.kept_bytes, on_gpu * layer.spared_bytes
    first_flight, middle_flight, last_flight = microbatches_held(stage, p, per_chunk, m)
    first = stage.first_layers * kept_bytes + larger(stage.first_layers - recomputed, 0.0) * spared_bytes
    first = first_flight * first + slot_bytes + stage.first_bytes
    middle = middle_flight * (n * kept_bytes + others * spared_bytes) + slot_bytes + stage.middle_bytes
    middle = (p > 2) * middle
    last = stage.last_layers * kept_bytes + larger(stage.last_layers - recomputed, 0.0) * spared_bytes
    last = last_flight * last + slot_bytes + layer.logits_bytes + stage.last_bytes
    most = larger(first, larger(middle, last))
    on_first, on_last = 1.0 * (first >= most), 1.0 * (first < most) * (last >= most)
    states = on_first * stage.first_bytes + on_last * stage.last_bytes + (1 - on_first - on_last) * stage.middle_bytes
    memory = most + layer.working_bytes + setting.reserved_bytes
    # `larger` of a number and NaN is the number, so that forward and backward are looked at too.
    short = NETWORK * (1 - np.isfinite(total + forward + backward)) + MEMORY * (memory > setting.memory_bytes)
    return CriticalPath(
        total_s=total,
        memory_bytes=memory,
        short=short,
        microbatches=m,
        hops_link_s=hops,
        hops_s=hops - hidden,
        logits_s=logits,
        data_pass_s=data_forward + data_backward + stage.copies_s,
        data_once_s=once,
        offload_pass_s=offload,
        bubble_s=bubble,
        straggler_s=straggler,
        hb_s=m * hb + counted * layer.logits_hb_s + stage.after_hb_s + stage.before_hb_s,
        nic_s=m * nic + counted * layer.logits_nic_s + stage.after_nic_s + stage.before_nic_s,
        fullest=2 * on_last + (1 - on_first - on_last),
        activation_bytes=most - states + layer.working_bytes,
    )


@Arithmetic
def microbatches_held(stage: Any, p: Any, per_chunk: Any, m: Any) -> tuple[Any, Any, Any]:
    """Micro-batches whose activations the first, a middle and the last stage hold.

    Parameters
    ----------
    stage, p
        As for `critical_path`.
    per_chunk
        1 / v.
    m
        Micro-batches of an iteration.

    Returns
    -------
    Three numbers, at most m.
    """
    rest = (m - p * np.floor(m / p)) * (1 - per_chunk)
    return (
        smaller(stage.first_flight + rest, m),
        smaller(stage.middle_flight + rest, m),
        smaller(stage.last_flight + rest, m),
    )


@Arithmetic
def _exposed_once(
    link_s: Any,
    hb_s: Any,
    nic_s: Any,
    free_hb: Any,
    free_nic: Any,
    pass_s: Any,
    passes_left: Any,
    per_chunk: Any,
    least_s: Any,
) -> Any:
    """What is exposed of an exchange that comes once an iteration.

    It runs at the rate r that other traffic leaves on the fuller of its links, 1 - busy / time. A chunk's gradients
    leave after its last micro-batch, while q = min(p, m) micro-batches of each chunk that remains run backward: all
    chunks together hide r t_b (1 + (v - 1) q) / v, and the last one hides r t_b / v of its own part.

    pass_s: t_b or t_f of a micro-batch. passes_left: (1 + (v - 1) q) / v. per_chunk: 1 / v. least_s: what is never
    hidden.
    """
    rate = smaller(1 - (hb_s > 0) * (1 - free_hb), 1 - (nic_s > 0) * (1 - free_nic))
    hides = rate * pass_s
    return larger(larger((link_s - hides) * per_chunk, link_s - hides * passes_left), least_s)
