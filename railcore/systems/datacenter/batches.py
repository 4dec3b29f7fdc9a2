"""What fill and drain of the pipeline add, and what one exchange per iteration saves, against micro-batches.

Symbols as in `exposed`; L stages of one layer each, m micro-batches of an iteration.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from railcore.systems.datacenter.exposed import Times
from railcore.systems.datacenter.layer import Layer
from railcore.systems.datacenter.layout import Layout
from railcore.systems.datacenter.scenario import Case
from railcore.training.pipeline_schedule import pipeline_bubble_time


def tokens(layer: Layer, laid: Layout) -> float:
    """Tokens of one micro-batch of every replica that works: s b g y in each datacenter."""
    sequence_tokens = layer.tensor_bytes / (layer.hidden * layer.precision.element)
    return sequence_tokens * laid.replicas_here * laid.datacenters


def pipelined_iteration(
    times: Times, stages: int, micro_batches: Sequence[int], rule: str = "each network"
) -> pd.DataFrame:
    """An iteration with its pipeline filled and drained, and one exchange of gradients at its end.

    time = (m + L - 1) (F + B + 2 T + 2 P) + X, X `Times.gradients_s` of the stage that ends last. L - 1 of the passes
    are the bubble, (L - 1) / (m + L - 1) of the time without X. A stage waits for the send of a pass, as it does for T.

    Parameters
    ----------
    times
        Of a layer, which is a stage.
    stages, micro_batches
        L; values of m.
    rule
        Of `exposed.OVERLAP_RULES`.

    Returns
    -------
    Columns micro_batches, time_s, computing, exposed, idle (shares of time_s, which sum to 1), steady_share: exposed
    without fill and drain, with an exchange for each micro-batch.
    """
    m = np.asarray(micro_batches)
    idle_s = pipeline_bubble_time(stages, m, times.forward_s + times.waits_s, times.backward_s + times.waits_s)
    exposed_s = times.exposed_s(rule, m)
    whole_s = m * (times.forward_s + times.backward_s) + exposed_s + idle_s
    exposed, idle = exposed_s / whole_s, idle_s / whole_s
    columns = {"micro_batches": m, "time_s": whole_s, "computing": 1 - exposed - idle, "exposed": exposed, "idle": idle}
    return pd.DataFrame(columns).assign(steady_share=float(times.share(rule)))


def iterations_by_micro_batches(cases: Mapping[str, Case], micro_batches: Sequence[int]) -> pd.DataFrame:
    """`pipelined_iteration` of several cases under their rules: columns model, tokens (of an iteration), its columns,
    host_bytes.

    host_bytes: activations offloaded from a GPU of the first stage, of min(m, L) micro-batches in flight (1F1B).
    """
    parts = []
    for name, case in cases.items():
        laid = case.layout
        table = pipelined_iteration(case.times, int(laid.layers), micro_batches, case.rule)
        table.insert(0, "tokens", tokens(case.layer, laid) * np.asarray(micro_batches))
        table.insert(0, "model", name)
        in_flight = np.minimum(micro_batches, laid.layers) / laid.layers
        parts.append(table.assign(host_bytes=laid.host_bytes * in_flight))
    return pd.concat(parts, ignore_index=True)
