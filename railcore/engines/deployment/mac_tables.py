"""MAC addresses of NIC ports, and what the VLANs of a switch learn from them."""

import numpy as np
import pandas as pd

from railcore.facts.checks import Ints, whole

_LOCAL = "06"  # first byte of locally administered unicast addresses; those of bundles of switches begin with 02


def mac_addresses(domain: Ints, gpu: Ints, nic_port: Ints) -> np.ndarray:
    """Locally administered MAC address of NIC ports: 06, server (3 bytes, highest first), GPU, port, all from 1.

    Raises ValueError for numbers that their bytes do not hold.
    """
    given = {"domain": (domain, 2**24 - 1), "gpu": (gpu, 255), "nic_port": (nic_port, 255)}
    server, rank, port = (np.atleast_1d(whole(name, value, 1, most)) for name, (value, most) in given.items())
    parts = (server >> 16, server >> 8 & 255, server & 255, rank, port)
    rows = zip(*(np.broadcast_to(part, server.shape).tolist() for part in parts), strict=True)
    return np.array([":".join([_LOCAL, *(f"{byte:02x}" for byte in row)]) for row in rows], dtype=object)


def mac_tables(ports: pd.DataFrame) -> pd.DataFrame:
    """What each VLAN of a switch has learned once every NIC has sent: columns switch, vlan, interface, lane, mac.

    ports: of `host_port_map`. Ports of a bundle send with the MAC address of its first port.
    """
    bundled = (ports["port_channel"] > 0).to_numpy()
    port = np.where(bundled, 1, ports["nic_port"])
    macs = mac_addresses(ports["domain"].to_numpy(), ports["gpu"].to_numpy(), port)
    table = ports[["switch", "vlan", "interface", "lane"]].assign(mac=macs)
    return table.sort_values(["switch", "vlan", "interface", "lane"], kind="stable", ignore_index=True)
