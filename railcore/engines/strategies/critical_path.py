"""The critical path of an iteration from the costs of a layer and of a stage: arithmetic of one strategy or of arrays.

It equals the readable model, `training.iteration`; a test holds it to that.

`critical_path` holds nothing but + - * / min max and ceil, and reads its inputs as fields. NumPy evaluates it for
arrays of strategies, Numba compiles it for one at a time: one source of truth, the same bits on every CPU.
"""

from typing import Any, NamedTuple

import numpy as np

from railcore.facts.compiled import Arithmetic, larger, smaller
from railcore.training.pipeline_schedule import LAYERS_IN_MEMORY

_LAYER_NUMBERS = (
    *("forward_s", "backward_s", "compute_s", "forward_hb_s", "forward_nic_s", "backward_hb_s", "backward_nic_s"),
    *("weights_s", "logits_s", "logits_hb_s", "logits_nic_s"),
    *("boundary_bytes", "boundary_s", "boundary_hb_s", "boundary_nic_s"),
    *("kept_bytes", "working_bytes", "logits_bytes"),
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
    hops_link_s: of the pipeline's hops, hidden or not.
    memory_bytes, activation_bytes: of the fullest stage.
    fullest: 0, 1 or 2 where the first, a middle or the last stage needs most memory.
    short: bits NETWORK and MEMORY.
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
def critical_path(layer: Any, stage: Any, setting: Any, b: Any, p: Any, d: Any, v: Any, batch: Any) -> CriticalPath:
    """The time of an iteration, its memory, and busy times of its links: `training.iteration.iteration_time`.

    The equations and their reasons stand there. Here they hold nothing but arithmetic, in the same order: passes of the
    stage with their exchanges, hops, exchanges once an iteration, logits, bubble, stragglers, memory.

    Parameters
    ----------
    layer, stage, setting
        Records (rows of LAYER_ROW and STAGE_ROW, one of SETTING), or arrays of records.
    b, p, d, v, batch
        Micro-batch, stages, data ranks, chunks, and sequences of an iteration G.

    Returns
    -------
    Seconds and bytes, of the arguments' shape.
    """
    n, m = stage.layers, np.ceil(batch / (d * b))
    per_layer, per_chunk = 1 / n, 1 / v  # divisions are what a search spends most of its time on
    forward, backward = n * layer.forward_s, n * layer.backward_s
    forward_nic, backward_nic = n * layer.forward_nic_s, n * layer.backward_nic_s
    forward_hb, backward_hb = n * layer.forward_hb_s, n * layer.backward_hb_s
    slowed = setting.interference
    # Exchanges of every pass, hidden behind all but one of its layers.
    hiding = setting.overlap_data * (n - 1) * per_layer
    # Never hidden of an exchange: one layer's part, and what compute loses beside the rest. All of the rest counts or,
    # where memory is what both want, what the HB interconnect is busy for.
    slows, slows_on_hb = slowed * (1 - setting.contends) * (1 - per_layer), slowed * setting.contends * (1 - per_layer)
    least = per_layer + slows
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
    # Activations on their way to the host and back, and weights from it, behind the pass that makes or needs them.
    away_s = (setting.offload_activations * n * layer.kept_bytes + stage.streamed_bytes) / setting.host_Bps
    pass_forward = larger(forward + data_forward, away_s)
    pass_backward = larger(backward + data_backward, away_s)
    passes = pass_forward + pass_backward + stage.copies_s
    offload = (pass_forward - (forward + data_forward)) + (pass_backward - (backward + data_backward))
    nic = forward_nic + backward_nic + stage.in_forward_nic_s + stage.in_backward_nic_s
    hb = forward_hb + backward_hb + stage.in_forward_hb_s + stage.in_backward_hb_s
    # Hops to the next stage and back, v chunks each; behind other chunks as far as the links are free.
    several = 1.0 * (p > 1)
    on_link = 2 * v * several * layer.boundary_bytes / stage.hop_Bps
    hops = 2 * v * several * (stage.hop_latency_s + layer.boundary_s) + on_link
    hop_hb = (1 - stage.hop_on_nic) * on_link + 2 * v * several * layer.boundary_hb_s
    free = passes - larger(nic, hb)
    most_hidden = (1 - slowed) * hops
    hidden = stage.hops_hide * smaller(free, most_hidden)
    nic, hb = nic + stage.hop_on_nic * on_link + 2 * v * several * layer.boundary_nic_s, hb + hop_hb
    steady = passes + hops - hidden
    # Exchanges once an iteration, at the rate that the others leave.
    per_pass = 1 / steady
    free_nic, free_hb = 1 - nic * per_pass, 1 - hb * per_pass
    passes_left = (1 + (v - 1) * smaller(p, m)) * per_chunk
    # Hops that are not hidden lengthen the passes; the last stage may have fewer layers to hide an exchange.
    spare = stage.spare_layers * per_layer
    window = (1 - spare) * setting.overlap_data * steady / passes
    after = _exposed(
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
    before = _exposed(
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
    # A last stage with fewer layers has less to hide its hops behind.
    shown = hidden - stage.hops_hide * smaller((1 - spare) * free, most_hidden)
    logits = larger(stage.logits_share * layer.logits_s - spare * passes + shown, 0.0)
    counted = m * logits / layer.logits_s  # micro-batches whose logits lengthen the path
    # From both ends (DualPipe) there are backward passes more, and weights' gradients that fill: what a pass without
    # them is shorter.
    gradients = n * layer.weights_s
    inputs = larger(backward - gradients + larger(beyond_backward + hiding * gradients, least_backward), away_s)
    bubble = stage.fill_passes * pass_forward + stage.fill_backward * (pass_backward + stage.copies_s)
    filled = smaller(m * stage.fill_weights_each, stage.fill_weights) * (pass_backward - inputs)
    bubble = bubble + stage.fill_hops * hops - filled
    straggler = stage.spread * (m * (n * layer.compute_s + logits) + stage.fill_passes * n * layer.compute_s)
    total = m * (steady + logits) + bubble + once + stage.optimizer_s + stage.offload_s + stage.once_s + straggler
    slot_bytes = LAYERS_IN_MEMORY * layer.kept_bytes * setting.offload_activations
    on_gpu_bytes = (1 - setting.offload_activations) * layer.kept_bytes
    # Micro-batches in flight: a rest of them joins a group of p; see `microbatches_in_flight`.
    rest = (m - p * np.floor(m / p)) * (1 - per_chunk)
    first = smaller(stage.first_flight + rest, m) * stage.first_layers * on_gpu_bytes + slot_bytes + stage.first_bytes
    middle = smaller(stage.middle_flight + rest, m) * n * on_gpu_bytes + slot_bytes + stage.middle_bytes
    middle = (p > 2) * middle
    last = smaller(stage.last_flight + rest, m) * stage.last_layers * on_gpu_bytes + slot_bytes
    last = last + layer.logits_bytes + stage.last_bytes
    most = larger(first, larger(middle, last))
    on_first, on_last = 1.0 * (first >= most), 1.0 * (first < most) * (last >= most)
    states = on_first * stage.first_bytes + on_last * stage.last_bytes + (1 - on_first - on_last) * stage.middle_bytes
    memory = most + layer.working_bytes + setting.reserved_bytes
    # `larger` of a number and NaN is the number: what it is made from counts too.
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
def _exposed(
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
    """What is exposed of an exchange once an iteration; see `critical_path`.

    pass_s: t_b or t_f of a micro-batch. passes_left: (1 + (v - 1) q) / v, passes behind which gradients leave.
    per_chunk, least_s: 1 / v, and what is never hidden.
    """
    rate = smaller(1 - (hb_s > 0) * (1 - free_hb), 1 - (nic_s > 0) * (1 - free_nic))
    hides = rate * pass_s
    return larger(larger((link_s - hides) * per_chunk, link_s - hides * passes_left), least_s)
