"""Files for the hall: complete, read back, written whole or not at all."""

import io

import pandas as pd
import pytest

from railcore.network.switches import switch_model
from suite.deployment.cables import cabling_table
from suite.deployment.frr import frr_text
from suite.deployment.routing import BgpDesign
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan
from suite.deployment.switch_configs import switch_config, write_deployment


@pytest.fixture
def bgp():
    fabric = SegmentFabric(4, switch_model("SN5600"), segments=2, spines=2, nic_ports=2, port_Bps="200 Gbps")
    return BgpDesign(AddressPlan(fabric, bundling="evpn"), "BGP EVPN", summarised=True)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_all_tables_and_a_configuration_for_each_switch(bgp, tmp_path):
    written = write_deployment(bgp, tmp_path / "new" / "hall", {"host": "20 m"}, mtu=9000)
    stored = files_of(tmp_path / "new" / "hall")
    assert set(written["file"]) == set(stored)
    assert written["lines"].tolist() == [stored[name].count("\n") for name in written["file"]]
    for name in bgp.switches["switch"]:
        assert stored[f"frr/{name}.conf"] == frr_text(switch_config(bgp, name, 9000))
    assert len(pd.read_csv(io.StringIO(stored["port_map.csv"]))) == len(bgp.plan.ports)
    cables = pd.read_csv(io.StringIO(stored["cabling.csv"]))
    assert len(cables) == len(cabling_table(bgp.plan)) and (cables.query("kind == 'host'")["length_m"] == 20).all()
    for name, table in (
        ("subnets", bgp.plan.subnets),
        ("summaries", bgp.plan.summaries),
        ("neighbours", bgp.neighbours),
    ):
        assert len(pd.read_csv(io.StringIO(stored[f"{name}.csv"]))) == len(table)
    write_deployment(bgp, str(tmp_path / "new" / "hall"), {"host": "20 m"}, mtu=9000)
    assert files_of(tmp_path / "new" / "hall") == stored
    write_deployment(BgpDesign(bgp.plan, "BGP EVPN"), tmp_path / "new" / "hall")
    assert set(files_of(tmp_path / "new" / "hall")) == set(stored) - {"summaries.csv"}, "none that nobody announces"


def test_a_folder_with_other_files_is_left_as_it_is(bgp, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"has other files \(notes.txt\): give a new or an empty folder"):
        write_deployment(bgp, tmp_path)
    with pytest.raises(ValueError, match=r"'notes\.txt' is a file"):
        write_deployment(bgp, tmp_path / "notes.txt" / "hall")
    assert files_of(tmp_path) == {"notes.txt": "mine"}
    smaller = BgpDesign(AddressPlan(SegmentFabric(2, switch_model("SN5600"))))
    write_deployment(bgp, tmp_path / "hall")
    with pytest.raises(ValueError, match="has other files"):
        write_deployment(smaller, tmp_path / "hall")  # switches of the last design would be left there


def test_what_cannot_be_exported_writes_nothing(bgp, tmp_path):
    with pytest.raises(ValueError, match="give control_plane 'BGP EVPN'"):
        write_deployment(BgpDesign(bgp.plan, "eBGP"), tmp_path / "hall")
    with pytest.raises(ValueError, match="lengths_m is 'hosts'"):
        write_deployment(bgp, tmp_path / "hall", {"hosts": 3})
    assert not (tmp_path / "hall").exists()
