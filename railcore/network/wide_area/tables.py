"""What the wide area asks of a transfer, as tables: flows, links, tails, admission, waits."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import positive
from railcore.network.wide_area import bit_errors, tcp, transfers
from railcore.network.wide_area.admission import allocation
from railcore.network.wide_area.priority import priority_waits, shared_wait

CODE = "KP4"


def flow_needs(
    transfer_bytes: Mapping[str, float],
    within: float,
    rtts: Mapping[str, float],
    packet: str = "9000-byte packet",
) -> pd.DataFrame:
    """What one flow needs to move each transfer within a time over each path, a row for each law of TCP.

    Parameters
    ----------
    transfer_bytes
        Transfers by name [bytes].
    within
        Time allowed [s].
    rtts
        Round trips by path [s].
    packet
        Packet of the catalog.

    Returns
    -------
    Columns transfer, path, law, rate_Bps, window_bytes (rate x rtt), loss (the largest that it stands), bit_error_rate
    and bit_error_rate_before_fec (behind that loss, without correction and before that of the code `CODE`),
    cold_start_s (`start_rounds` in time) and recovery_s (after one loss).
    """
    size, rs = catalog.item("wide_area", packet), bit_errors.code(CODE)
    mss, frame, rows = size["payload"], size["frame"], []
    for (transfer, data), (path, rtt), law in (
        (a, b, c) for a in transfer_bytes.items() for b in rtts.items() for c in tcp.LAWS
    ):
        rate = float(positive("transfer_bytes", data) / positive("within", within))
        loss = tcp.tolerable_loss(rate, rtt, mss, law)
        bers = (bit_errors.bit_error_rate(loss, frame), rs.bit_error_rate(loss, frame))
        times = (tcp.start_rounds(data, mss) * rtt, tcp.recovery_time(rate, rtt, mss, law))
        rows.append((transfer, path, law, rate, rate * rtt, *map(float, (loss, *bers, *times))))
    columns = "transfer path law rate_Bps window_bytes loss bit_error_rate bit_error_rate_before_fec cold_start_s"
    columns += " recovery_s"
    return pd.DataFrame(rows, columns=columns.split())


def throughputs(
    losses: ArrayLike,
    rtts: Mapping[str, float],
    link: float,
    packet: str = "9000-byte packet",
) -> pd.DataFrame:
    """`tcp_throughput` at each loss, path and law.

    Parameters
    ----------
    losses
        Shares of packets lost.
    rtts
        Round trips by path [s].
    link
        Bandwidth of the link [bytes/s].
    packet
        Packet of the catalog.

    Returns
    -------
    Columns path, law, loss, bit_error_rate (behind it without correction), throughput_Bps.
    """
    size, p = catalog.item("wide_area", packet), np.asarray(losses, float)
    ber = bit_errors.bit_error_rate(p, size["frame"])
    parts = [
        pd.DataFrame({"path": path, "law": law, "loss": p, "bit_error_rate": ber}).assign(
            throughput_Bps=tcp.tcp_throughput(p, rtt, size["payload"], link, law)
        )
        for path, rtt in rtts.items()
        for law in tcp.LAWS
    ]
    return pd.concat(parts, ignore_index=True)


def link_losses(packet: str = "9000-byte packet") -> dict[str, float]:
    """Packets lost on the worst link that each standard of the catalog allows: without correction, KP4, coherent.

    Of coherent links the bit errors left are known, taken as independent: what is left in bursts loses fewer packets.
    """
    frame = catalog.item("wide_area", packet)["frame"]
    plain, coded, coherent = (catalog.item("wide_area", name) for name in ("no FEC", CODE, "oFEC"))
    return {
        f"no FEC at {plain['bit_error_rate']:g}": float(bit_errors.packet_loss(plain["bit_error_rate"], frame)),
        f"{CODE} at {coded['bit_error_rate']:g}": float(
            bit_errors.code(CODE).packet_loss(coded["bit_error_rate"], frame)
        ),
        f"oFEC at {coherent['bit_error_rate']:g}": float(
            bit_errors.packet_loss(coherent["bit_error_rate_after"], frame)
        ),
    }


def tails(
    losses: Mapping[str, float],
    transfer_bytes: float,
    devices: float,
    rtt: float,
    capacity: float,
    failure: float = 0.01,
    packet: str = "9000-byte packet",
) -> pd.DataFrame:
    """What a loss does to a step in which every device has to finish its transfer.

    Parameters
    ----------
    losses
        Shares of packets lost, by case.
    transfer_bytes, devices
        Transfer of a device [bytes], and how many devices there are.
    rtt
        Round trip [s].
    capacity
        Of a device [bytes/s].
    failure
        Probability with which some device may have to send again in spite of repair packets.
    packet
        Packet of the catalog.

    Returns
    -------
    Columns case, loss, flows (of CUBIC that fill the capacity of a device) and flows_in_all (of all devices),
    device_resends_share and iterations_delayed_share (probability that one device, and that any, sends again),
    mean_delay_s (of the slowest device); repair_packets and repair_share (redundancy with which no device sends again
    but with probability `failure`).
    """
    mss = catalog.item("wide_area", packet)["payload"]
    packets, rows = int(np.ceil(positive("transfer_bytes", transfer_bytes) / mss)), []
    for case, loss in losses.items():
        flows = float(tcp.flows_needed(capacity, loss, rtt, mss, capacity))
        extra = float(transfers.sending_rounds(packets, loss, devices) - 1) * rtt
        repair = transfers.repair_packets(packets, loss, failure, devices)
        some = (float(transfers.any_loss(packets, loss, n)) for n in (1, devices))
        rows.append((case, loss, flows, flows * devices, *some, extra, repair, repair / packets))
    columns = "case loss flows flows_in_all device_resends_share iterations_delayed_share mean_delay_s"
    columns += " repair_packets repair_share"
    return pd.DataFrame(rows, columns=columns.split())


def policies(need: float, others: Sequence[float], capacities: Sequence[float]) -> pd.DataFrame:
    """What gradients get beside other demands as a link loses capacity, under each policy, all in bytes/s.

    Gradients need a rate and take more where they are given it, to end earlier. Policies: max-min (all alike),
    reserved (what they need is set aside, as far as the link has it), priority (gradients first). Columns
    capacity_Bps, policy, gradients_Bps, others_Bps, time_over_allowed (need over what is admitted,
    late where more than 1).
    """
    rows = []
    for capacity in capacities:
        demands = np.array([capacity, *others], float)
        first = np.arange(len(demands)) == 0
        ways: dict[str, dict] = {
            "max-min": {},
            "reserved": {"reserved": np.where(first, min(float(positive("need", need)), capacity), 0)},
            "priority": {"priorities": ~first},
        }
        for policy, options in ways.items():
            admitted = allocation(capacity, demands, **options)
            rows.append((capacity, policy, admitted[0], admitted[1:].sum(), need / admitted[0]))
    return pd.DataFrame(rows, columns=["capacity_Bps", "policy", "gradients_Bps", "others_Bps", "time_over_allowed"])


def queue_waits(
    load: float, other_loads: Sequence[float], link: float, packet: str = "9000-byte packet"
) -> pd.DataFrame:
    """Mean wait of gradients against the load of other traffic on their link.

    Parameters
    ----------
    load, other_loads
        Of gradients and of other traffic, shares of the link.
    link
        Bandwidth [bytes/s].
    packet
        Packet of the catalog, of all traffic.

    Returns
    -------
    Columns other_load, queue (strict priority, preemptive priority, one queue), wait_s.
    """
    sizes, rows = catalog.item("wide_area", packet)["frame"], []
    for other_load in other_loads:
        loads = (load, other_load)
        rows.append((other_load, "strict priority", priority_waits(loads, sizes, link)[0]))
        rows.append((other_load, "preemptive priority", priority_waits(loads, sizes, link, preemptive=True)[0]))
        rows.append((other_load, "one queue", shared_wait(loads, sizes, link)))
    return pd.DataFrame(rows, columns=["other_load", "queue", "wait_s"])
