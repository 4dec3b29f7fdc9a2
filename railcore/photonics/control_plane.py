"""The control plane of reconfigurable rails: what stands between a rank's call and circuits that carry it.

A shim in front of the collective library sees every call. It picks the network: scale-up within an HB domain (scale-up
or NVLink domain), the hosts' own network (frontend) for tiny messages, circuits for the rest. Circuits that are up are
used at once. Otherwise the rank's client asks the manager of its HB domain, and the manager asks the controller. The
controller waits for all ranks of the group, finds or generates their circuits, commands the switches and acknowledges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import Bytes, Seconds, checked

CIRCUIT_STATES = ("first time", "cached", "up")  # what the controller knows of a group's circuits
NETWORKS = ("scale-up", "frontend", "circuits")


@checked
@dataclass(frozen=True)
class ControlPlane:
    """Latency of each step [s], and the message size below which the frontend network is taken [bytes].

    interception_s: the shim intercepts a call.
    selection_s: choice of the network.
    local_s: message between a client and the manager of its HB domain.
    message_s: message between a host or switch and the controller, one way.
    service_s: the controller serves one request.
    configuration_s: generation of a group's circuits.
    lookup_s: look-up of stored circuits.
    command_s: the switch's software, from a command to the start of its reconfiguration.
    """

    interception_s: Seconds
    selection_s: Seconds
    local_s: Seconds
    message_s: Seconds
    service_s: Seconds
    configuration_s: Seconds
    lookup_s: Seconds
    command_s: Seconds
    frontend_bytes: Bytes

    def network(self, message_bytes: float, within_domain: bool = False) -> str:
        """One of NETWORKS for a collective: by its message [bytes], and by whether its ranks share an HB domain."""
        return NETWORKS[0] if within_domain else NETWORKS[1 if message_bytes < self.frontend_bytes else 2]

    def steps(self, requests: int, state: str = "cached") -> dict[str, float]:
        """Steps between the last rank's call and usable circuits, with their times [s]; without the switch itself.

        requests: served before the controller acts, all there at once: one of each rank of the group, or one of each
        HB domain where managers coalesce the requests of their rails. state: one of CIRCUIT_STATES.
        """
        shim = {"interception": self.interception_s, "choice of network": self.selection_s}
        if state == "up":
            return shim
        stored = state == "cached"
        return shim | {
            "request": self.local_s + self.message_s,
            "barrier": requests * self.service_s,
            "stored circuits" if stored else "new circuits": self.lookup_s if stored else self.configuration_s,
            "command": self.message_s + self.command_s,
            "acknowledgement": 2 * self.message_s + self.local_s,
        }

    def overhead_s(self, requests: int, state: str = "cached") -> float:
        """Time of `steps` [s]."""
        return sum(self.steps(requests, state).values())


def catalog_control_plane(name: str = "host-driven", bound: Literal["value", "low", "high"] = "value") -> ControlPlane:
    """A control plane of the catalog, with its values or their bounds. Raises UnknownName."""
    item = catalog.item("control_planes", name)
    rows = {"frontend_bytes": item.row("frontend_message")}
    for field in fields(ControlPlane):
        if field.name.endswith("_s"):
            rows[field.name] = item.row(f"{field.name[:-2]}_time")
    values = {key: getattr(row, bound) for key, row in rows.items()}
    return ControlPlane(**{key: rows[key].value if value is None else value for key, value in values.items()})


def reconfiguration_sequence(
    plane: ControlPlane, switch_s: float, asked_s: Mapping[int, float], call: str = "collective"
) -> pd.DataFrame:
    """The messages of a group's first reconfiguration, from the calls of its ranks to their start.

    The controller serves requests one by one in the order in which they come. It acts when the last is served.

    Parameters
    ----------
    plane
        Latencies.
    switch_s
        Reconfiguration of the circuit switch alone [s].
    asked_s
        When each rank of the group calls [s], by rank.
    call
        What the ranks call, for the texts.

    Returns
    -------
    Columns number (of the step), step, rank, sender, receiver, message, start_s, end_s, by start. Sender and receiver
    are application, shim client, shim manager, controller, circuit switch or collective library, and the same party
    where it works alone.
    """
    rows: list[tuple] = []

    def step(number: int, name: str, rank: int | None, way: str, message: str, start: float, time: float) -> float:
        rows.append((number, name, rank, *way.split(" > "), message, start, start + time))
        return start + time

    asked = {}
    for rank, time in asked_s.items():
        heard = step(1, "interception", rank, "application > shim client", call, time, plane.interception_s)
        choice = "which network? circuits"
        asked[rank] = step(2, "choice of network", rank, "shim client > shim client", choice, heard, plane.selection_s)
    free = 0.0
    for rank, time in sorted(asked.items(), key=lambda call: call[1]):
        manager = step(3, "request", rank, "shim client > shim manager", "group, bytes", time, plane.local_s)
        there = step(4, "request", rank, "shim manager > controller", "rank asks", manager, plane.message_s)
        free = step(5, "barrier", rank, "controller > controller", "rank noted", max(free, there), plane.service_s)
    way = "controller > controller"
    made = step(6, "new circuits", None, way, "all ranks asked", free, plane.configuration_s)
    told = step(7, "command", None, "controller > circuit switch", "circuits", made, plane.message_s + plane.command_s)
    up = step(8, "switch", None, "circuit switch > circuit switch", "reconfigures", told, switch_s)
    done = step(9, "acknowledgement", None, "circuit switch > controller", "circuits are up", up, plane.message_s)
    for rank in asked:
        told = step(10, "acknowledgement", rank, "controller > shim manager", "go", done, plane.message_s)
        told = step(11, "acknowledgement", rank, "shim manager > shim client", "go", told, plane.local_s)
        step(12, "call", rank, "shim client > collective library", call, told, 0.0)
    columns = "number step rank sender receiver message start_s end_s".split()
    table = pd.DataFrame(rows, columns=columns).astype({"rank": "Int64"})
    return table.sort_values(["start_s", "number", "rank"], kind="stable", ignore_index=True)


def saturating_gpus(
    plane: ControlPlane,
    hb_domain_size: int,
    changes: float,
    iteration_s: float,
    group_ranks: float = 2,
    coalesced: bool = True,
) -> float:
    """GPUs at which one controller is busy all the time: requests a second times the time of each are 1.

    Parameters
    ----------
    plane
        Latencies. A request takes s = service_s + lookup_s / group_ranks of the controller.
    hb_domain_size
        GPUs of an HB domain.
    changes
        Requests of a sender in an iteration; 0 or more.
    iteration_s
        T [s].
    group_ranks
        Ranks of a group, whose requests share one look-up.
    coalesced
        One request for all rails of an HB domain, otherwise one from each rank.

    Returns
    -------
    hb_domain_size (1 without coalescing) x T / (changes s); infinite without changes.
    """
    busy_s = changes * (plane.service_s + plane.lookup_s / group_ranks)
    return (hb_domain_size if coalesced else 1) * iteration_s / busy_s if busy_s else np.inf
