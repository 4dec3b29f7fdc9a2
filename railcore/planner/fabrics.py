"""Fabrics of a cluster that are compared, and which of them change a model's times."""

import math
from typing import Any

from railcore import catalog
from railcore.network.topology.blocks import pod_blocks, rail_blocks
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only
from railcore.training.machine import Machine
from railcore.training.transformer import Transformer


def platform_fabric(platform: str, gpus: int, radix: int, machine: Machine | None = None) -> RailFabric:
    """The rail-only network of a cluster of a catalog platform, with its HB domains and bandwidths.

    Parameters
    ----------
    platform
        Of the catalog.
    gpus, radix
        Of the cluster; ports of a switch.
    machine
        Whose HB domains and bandwidths stand in place of the platform's.

    Returns
    -------
    The fabric.
    """
    box = catalog.item("platforms", platform)
    size, nic_Bps, hb_Bps = (box[name] for name in ("gpus", "nic_bandwidth", "hb_bandwidth"))
    if machine:
        size, nic_Bps, hb_Bps = machine.hb_domain_size, machine.nic_Bps, machine.hb_Bps
    return rail_only(gpus, int(size), radix, nic_Bps=nic_Bps, hb_Bps=hb_Bps, hb_switches=int(box["hb_switches"]))


def rail_only_and_optimized(fabric: RailFabric) -> dict[str, RailFabric]:
    """The cluster of a fabric without a layer over its rails and with a full one, by name."""
    return {"rail-only": fabric.with_layer(math.inf), "rail-optimized": fabric.with_layer(1.0)}


def photonic_fabric(gpus: int, hb_domain_size: int, circuit_switch: str, nic_ports: int, **links: Any) -> PhotonicRails:
    """Photonic rails of a cluster, with as many rails on a switch as fit.

    Parameters
    ----------
    gpus, hb_domain_size
        Of the cluster; K [GPUs].
    circuit_switch
        Of the catalog.
    nic_ports
        Of a NIC, each on a switch of its own.
    links
        Of `PhotonicRails`: bandwidths and HB switches.

    Returns
    -------
    The fabric.

    Raises
    ------
    ValueError
        For GPUs that one HB domain holds.
    """
    if gpus <= hb_domain_size:
        raise ValueError("one HB domain holds all GPUs, which need no network")
    ports = int(catalog.item("circuit_switches", circuit_switch)["ports"])
    return PhotonicRails(gpus, hb_domain_size, ports, nic_ports, planes=nic_ports, rails_per_switch=None, **links)


def switching_time(circuit_switch: str, own_s: float | None) -> float:
    """Time of a change of circuits [s]. circuit_switch: of the catalog. own_s: in place of the catalog's."""
    return catalog.item("circuit_switches", circuit_switch)["reconfiguration_time"] if own_s is None else own_s


def limiting_fabric(fabric: RailFabric, model: Transformer) -> RailFabric | None:
    """The fabric where it changes the model's times; None where all traffic has the NICs' full rate.

    A full fabric counts for a mixture of experts too: where rails meet, tokens go straight to their experts' rails. All
    full ones give the same shares, so that of one switch stands for them.
    """
    rails_meet = fabric.rails == 1 or math.isfinite(fabric.oversubscription)
    full = all(blocks.full for blocks in rail_blocks(fabric))
    if not (model.experts and rails_meet):
        return None if full else fabric
    if not full or not all(blocks.full for blocks in pod_blocks(fabric)):
        return fabric
    links = {name: getattr(fabric, name) for name in ("nic_Bps", "hb_Bps", "hb_switches")}
    return fat_tree(fabric.gpus, max(4, fabric.gpus + fabric.gpus % 2), fabric.hb_domain_size, **links)
