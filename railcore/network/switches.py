"""Switches of the catalog by name, and those that the networks of a cluster usually have."""

import math
from dataclasses import dataclass
from functools import cache

from railcore import catalog
from railcore.catalog import files
from railcore.catalog.arguments import Count, PositiveBandwidth, checked
from railcore.catalog.tables import read_csv
from railcore.catalog.units import Gbps, either, number

TECHNOLOGIES = {"Ethernet": "ethernet2026", "InfiniBand": "infiniband2026"}  # of links, with the book of their parts


@checked
@dataclass(frozen=True)
class SwitchModel:
    """A switch of the catalog.

    name: in the catalog.
    ports: interfaces.
    port_Bps: of an interface, one direction [bytes/s].
    slower: (bandwidth of a port [bytes/s], ports of the whole switch) of each mode in which interfaces break out.
    """

    name: str
    ports: Count
    port_Bps: PositiveBandwidth
    slower: tuple[tuple[float, int], ...] = ()
    made_by = "SwitchModel(name, ports, port_Bps) or switch_model(name)"

    def ports_of_interface(self, speed_Bps: float) -> int:
        """Ports of a speed that one interface gives; one of any speed where `slower` is empty.

        Raises ValueError for a speed above the interface's, and for one that `slower` lacks.
        """
        if speed_Bps > self.port_Bps * (1 + 1e-9):
            raise ValueError(
                f"a port of {number(speed_Bps / Gbps)} Gbps is asked of {self.name}, whose interfaces have "
                f"{number(self.port_Bps / Gbps)} Gbps: give a slower port or another switch"
            )
        modes = [ports // self.ports for speed, ports in self.slower if math.isclose(speed, speed_Bps)]
        if self.slower and not modes and not math.isclose(speed_Bps, self.port_Bps):
            speeds = sorted({round(speed / Gbps, 6) for speed in (self.port_Bps, *dict(self.slower))}, reverse=True)
            texts = [*(f"{number(speed)} Gbps" for speed in speeds), "a SwitchModel with that mode in `slower`"]
            raise ValueError(
                f"a port of {number(speed_Bps / Gbps)} Gbps is asked of {self.name}, which has no such mode: give "
                f"{either(texts)}"
            )
        return max(modes, default=1)


def switch_model(name: str) -> SwitchModel:
    """A switch of the catalog, such as "SN5600". Raises UnknownName for one that it lacks."""
    item = catalog.item("switches", name)
    slower = tuple((int(key[6:-1]) * Gbps, int(item[key])) for key in item if key.startswith("ports_"))
    return SwitchModel(name, int(item["ports"]), item["port_bandwidth"], slower)


def switch_technology(name: str) -> str:
    """ "Ethernet" or "InfiniBand": of a switch of the catalog; Ethernet where its rows say nothing."""
    return str(catalog.item("switches", name).get("technology", "Ethernet"))


def usual_switch(technology: str, rate_Bps: float) -> str:
    """The switch of the catalog that links of a technology usually have.

    That of the scale-out network in `usual_networks` where it has the technology, else the one whose ports are the
    slowest that carry the rate.

    technology: of TECHNOLOGIES. rate_Bps: of the links, one direction [bytes/s].
    Raises ValueError for a rate that no switch of the technology carries.

    Examples
    --------
    >>> from railcore.catalog.units import Gbps
    >>> [usual_switch("InfiniBand", rate * Gbps) for rate in (400, 800)]
    ['QM9700', 'Q3400-RA']
    """
    usual = usual_networks()["scale-out"]
    if usual["technology"] == technology:
        return usual["switch"]
    ports = {name: catalog.item("switches", name)["port_bandwidth"] for name in catalog.names("switches")}
    able = [name for name in ports if switch_technology(name) == technology and ports[name] > rate_Bps * (1 - 1e-9)]
    if not able:
        rate = f"{number(rate_Bps / Gbps)} Gbps"
        raise ValueError(f"no {technology} switch of the catalog has ports of {rate}: give a switch, or slower links")
    return min(able, key=ports.__getitem__)


@cache
def usual_networks() -> dict[str, dict[str, str]]:
    """How each network of a cluster is usually built and run, by name: rows of data/rules/cluster_networks.csv."""
    return {row["network"]: row for row in read_csv(files.data("rules/cluster_networks.csv"))}
