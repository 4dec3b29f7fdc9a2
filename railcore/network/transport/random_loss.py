"""What random loss on links does to one flow, by the way it is made good and by the round trip."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import positive, whole
from railcore.network.transport.fabric import leaf_spine
from railcore.network.transport.flows import Flows
from railcore.network.transport.packets import ACKNOWLEDGED, simulate_packets
from railcore.network.transport.transports import Transport

LINKS = 4  # from host to host over two tiers


@checked
def loss_recovery(
    transports: dict[str, Transport],
    size_bytes: Quantity,
    link_Bps: Quantity,
    rtt_s: Quantity,
    losses: Sequence[float],
    draws: int = 20,
) -> pd.DataFrame:
    """Completion times of a flow alone on a path that loses packets at random.

    What it leaves out is what `simulate_packets` leaves out; a timer is never too early.

    Parameters
    ----------
    transports
        By the name in the table.
    size_bytes, link_Bps
        Of the flow [bytes]; of every link [bytes/s].
    rtt_s
        Round trip of the cables [s]: some 8 us in a datacenter, 60 ms over a continent.
    losses
        Probabilities that a packet is lost on its way from host to host.
    draws
        Runs of each, seeds 0 and up.

    Returns
    -------
    Row for each transport and loss: mean, 95th percentile of the slowdown over the flow alone, mean share of packets
    sent again, packets lost in a run.

    Raises
    ------
    RuntimeError
        Where a flow is not complete after a thousand times of what it takes alone.
    """
    whole("draws", draws)
    fabric = leaf_spine(2, 1, link_Bps, link_latency_s=float(positive("rtt_s", rtt_s)) / (2 * LINKS))
    flow, rows = Flows(np.array([0]), np.array([1]), size_bytes), []
    most_s = 1000 * (float(np.asarray(size_bytes)) / float(np.asarray(link_Bps)) + float(np.asarray(rtt_s)))
    for name, each in transports.items():
        each = replace(each, entropies=min(each.entropies, 1)) if each.entropies else each
        for loss in losses:
            a_link = -np.expm1(np.log1p(-loss) / LINKS)
            runs = [
                simulate_packets(fabric, flow, each, ACKNOWLEDGED, seed, a_link, most_s=most_s) for seed in range(draws)
            ]
            slow = np.array([run.slowdown[0] for run in runs])
            again = np.mean([run.retransmitted_share for run in runs])
            lost = np.mean([run.tallies["lost"] for run in runs])
            rows.append((name, loss, slow.mean(), np.quantile(slow, 0.95), again, lost))
    return pd.DataFrame(rows, columns=["transport", "loss", "mean", "p95", "sent_again", "lost"])
