"""What notebook 11 takes from flops2024: the job on its racks, modes and prices of the chip; and costs not laid out."""

import pytest

from railcore import catalog
from railcore import datacenter as dc
from railcore.catalog.units import Gbps
from railcore.network.price_books import PriceBook
from suite.flops2024 import scale_out, scale_out_claims
from suite.ledger import claims

NIC, NVL72 = 800 * Gbps, "GB200 NVL72"
EQUIPMENT = scale_out.Equipment("51.2T", NIC, PriceBook(8, 10, rate_Bps=NIC), PriceBook(1, 1, rate_Bps=NIC))


def job(gpus=835_000, datacenters=2):
    bought = dc.datacenter_size(1e11, NVL72, "flops2024", network="shares")
    return scale_out_claims.rack_job(gpus, bought, datacenters, NVL72, "flops2024", NIC, "flops2024 dense", "flops2024")


def test_the_job_fills_whole_stages_of_its_racks():
    rack_job = job()
    assert rack_job.gpus == 72 * rack_job.racks and rack_job.machine["racks_of"] == "budget"
    assert rack_job.stages == claims.paper_value("flops2024.model.layers")
    assert 0 < rack_job.racks - rack_job.stages * rack_job.racks_of_a_stage < rack_job.stages
    row = rack_job.table().iloc[0]
    assert row.gpus_at_work == rack_job.stages * rack_job.racks_of_a_stage * 72 <= row.bought_gpus
    assert rack_job.ring_bytes > 0 and 0 < rack_job.outside < 1
    assert job(72 * 23_333, 1).outside == 0  # one datacenter sends nothing to others


def test_racks_of_the_job_are_the_users():
    document = scale_out_claims.job_racks(835_000, 72, 11_666)
    assert (document["racks"], document["racks_of"], document["difference"]) == (11_666, "budget", "-0.6%")
    mine = scale_out_claims.job_racks(83_952, 72, 11_666)
    assert (mine["racks"], mine["racks_of"]) == (83_952 // 72, "gpus")


def test_a_job_without_room_says_what_to_change():
    with pytest.raises(ValueError, match=r"gpus is 71, less than a rack.* Parameters for racks: gpus"):
        job(71)


def test_modes_and_price_of_the_chip():
    values, reasons, read = scale_out_claims.chip_entries("51.2T", NIC, 4)
    two_tiers = "flops2024.fig5.two_tier_chip"  # 2 (k/2)^2 = 8,192 hosts at k = 128 ports of 800 Gbps
    modes = {"flops2024.fattree.chip_modes": pytest.approx(51.2e12), "flops2024.multiplane.ports": 256}
    assert values == modes | {two_tiers: pytest.approx(128 * 800e9)}
    assert "hold 2,048 hosts" in reasons[two_tiers] and "25.6 Tbps" in read[two_tiers]
    assert scale_out_claims.chip_entries("51.2T", NIC, 3).values["flops2024.multiplane.ports"] == 0
    assert EQUIPMENT.chip_ports == pytest.approx(64)
    row = catalog.item("prices", "flops2024").row("port_price")
    low, middle, high = scale_out_claims.chip_price_range(row, 50e3)
    assert low < middle == 50e3 < high
    assert (low / middle, high / middle) == pytest.approx((row.low / row.value, row.high / row.value))
