"""Lines below the pictures of nwktimes2025's rail designs: what follows from each, and what the document has.

A line is a text and our verdict on the document's numbers in it, "" where it has none of them.
"""

from collections.abc import Mapping

import pandas as pd

from railcore.catalog.units import count_word, counted, number, show
from suite.deployment.resilience import failure_domains
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan
from suite.ledger import claims
from suite.nwktimes2025 import rail_claims, rail_designs

_TIERS = ("rail switch", "spine", "super-spine")


def wiring_notes(plan: AddressPlan) -> list[tuple[str, str]]:
    """Of NICs wired to one or two rail switches: their bandwidth over MLAG, and what a failed switch takes."""
    fabric, lost = plan.fabric, failure_domains(plan.fabric).iloc[0]
    failed = f"A failed rail switch cuts off {lost['gpus_lost']} of {fabric.gpus} GPUs"
    if fabric.homing == 1:
        return [(f"{failed}.", "")]
    speed, whole = (show(ports * fabric.port_Bps, "bps") for ports in (1, fabric.nic_ports))
    joined = f"MLAG: the two switches act as one, a GPU has {fabric.nic_ports} x {speed} = {whole}. "
    return [
        (f"{joined}Peer links are ours: the document counts none.", ""),
        (f"{failed}, and leaves {number(100 * lost['share_left'], 3)}% of their bandwidth.", ""),
    ]


def segment_document(plan: AddressPlan) -> list[tuple[str, str]]:
    """What the document has for Fig. 13-7, of its plan: a line, or none without marks."""
    fabric = plan.fabric
    values = {"gpus": fabric.gpus, "rails": fabric.rails, "gpu_bandwidth": 8 * fabric.nic_ports * fabric.port_Bps}
    marks = claims.marks({f"nwktimes2025.fig13_7.{name}": float(value) for name, value in values.items()})
    if not marks:
        return []
    gpus, rails, speed = marks.values()
    port = show(speed.value / 8 / fabric.nic_ports, "bps")
    return [(f"{gpus.text}, {rails.text}, {fabric.nic_ports} x {port} MLAG, {speed.text} per GPU", _worst(marks))]


def panel_notes(plan: AddressPlan, panel: pd.DataFrame, mapping: pd.DataFrame) -> list[str]:
    """Of Fig. 13-6: what host ports and free interfaces carry, and how many numbers are the document's.

    plan: of Fig. 13-7. panel, mapping: of `front_panel_table` and `interface_check`.
    """
    nic_port_Bps, switch_port_Bps = plan.fabric.port_Bps, plan.fabric.rail_switch.port_Bps
    used, free = int((panel["rail"] > 0).sum()), int((panel["rail"] == 0).sum())
    left = free - plan.peer_links
    down, up, rest = (
        f"{count} x {show(speed, 'bps')} = {show(count * speed, 'bps')}"
        for count, speed in ((used, nic_port_Bps), (free, switch_port_Bps), (left, switch_port_Bps))
    )
    return [
        f"Host ports: {down}. Interfaces without a rail: {up}; without the {plan.peer_links} peer links {rest}: "
        f"oversubscription {number(used * nic_port_Bps / (left * switch_port_Bps), 3)}:1.",
        f"Interfaces of rails: {int(mapping['agrees'].sum())} of {len(mapping)} as in the document. The peer links "
        "and their interfaces are ours.",
    ]


def pod_notes(figure: str, fabric: SegmentFabric) -> list[tuple[str, str]]:
    """Of Fig. 13-8 or 13-9: tiers, stages, oversubscription; the document's numbers and host ports where it has marks.

    figure: "fig13_8" or "fig13_9". fabric: of the picture.
    """
    values = rail_claims.pod_claims().values
    marks = claims.marks({name: value for name, value in values.items() if f".{figure}." in name})
    said = {name.rpartition(".")[2]: mark.value for name, mark in marks.items()}
    path = [*_TIERS[: fabric.tiers], *reversed(_TIERS[: fabric.tiers - 1])]
    ratios = ", ".join(dict.fromkeys(f"{number(ratio, 3)}:1" for ratio in fabric.oversubscription))
    ours = f"{fabric.tiers} tiers, {len(path)} stages: {', '.join(path)}. Oversubscription {ratios}."
    if not marks:
        return [(ours, "")]
    names = f"{count_word(int(said['tiers']))}-tier, {count_word(int(said['stages']))}-stage, non-blocking"
    if figure == "fig13_8":
        text = f"{names}, {number(said['pod_gpus'])} GPUs; {show(said['downlink'] / 8, 'bps')} from the hosts, "
        text += f"{show(said['uplink'] / 8, 'bps')} up"
    else:
        text = f"{names}, {counted(said['super_spines'], 'super-spines')}, {show(said['spine_uplink'] / 8, 'bps')} up "
        text += "from each spine"
    slow = {name: mark for name, mark in marks.items() if not name.endswith("port_rate")}
    doubled = rail_claims.doubled_ports(rail_designs.rail_design("fig13_8"))
    ports = f"Host ports: {show(fabric.port_Bps, 'bps')}, as the document counts for this figure. With the "
    ports += f"{show(doubled.port_Bps, 'bps')} of its Fig. 13-7 a rail switch is "
    ports += f"{number(doubled.oversubscription[0])}:1 oversubscribed."
    return [(ours, ""), (text, _worst(slow)), (ports, "")]


def _worst(marks: Mapping[str, claims.Mark]) -> str:
    """The worst of our verdicts on some claims."""
    return max((mark.verdict for mark in marks.values()), key=claims.VERDICTS.index)
