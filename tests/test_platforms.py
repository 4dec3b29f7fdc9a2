"""A platform brings its own HB domain and NIC; what is given in their place is shown."""

import json

import pytest

from railcore.facts import catalog, files, units
from railcore.network.platforms import platform_links
from railcore.training.machine import catalog_machine

PUBLISHED = {  # HB domain [GPUs] and NIC of the documents' platforms, as the notebooks had them as numbers
    "DGX A100": (8, "200 Gbps"),
    "DGX H100": (8, "400 Gbps"),
    "GH200": (256, "400 Gbps"),
    "GB200 NVL72": (72, "400 Gbps"),
}


def cell(number):
    """The notebook of a number, as the driver reads it."""
    notebook = json.loads(next(files.NOTEBOOKS.glob(f"{number}_*.ipynb")).read_text())
    for each in notebook["cells"]:
        each["source"] = "".join(each["source"])
    return notebook


@pytest.mark.parametrize("platform", PUBLISHED)
def test_links_are_the_platforms_unless_given(platform):
    size, nic = PUBLISHED[platform]
    own, box = platform_links(platform), catalog.item("platforms", platform)
    assert (own.hb_domain_size, own.nic_Bps, own.hb_Bps) == (size, units.parse(nic), box["hb_bandwidth"])
    changed = platform_links(platform, nic="800 Gbps")
    assert (changed.hb_domain_size, changed.hb_Bps, changed.nic_Bps) == (size, own.hb_Bps, 1e11)


def test_links_say_where_they_are_from():
    assert str(platform_links("GB200 NVL72")) == (
        "GB200 NVL72: HB domain of 72 GPUs, HB 7.2 Tbps per GPU, NIC 400 Gbps per GPU (of the platform)"
    )
    assert str(platform_links("GB200 NVL72", 8, "200 Gbps")) == (
        "GB200 NVL72: HB domain of 8 GPUs (given), HB 7.2 Tbps per GPU (of the platform), NIC 200 Gbps per GPU (given)"
    )
    assert str(platform_links("GB200 NVL72", nic=1e10, document="flops2024")) == (
        "GB200 NVL72: HB domain of 72 GPUs (of the platform), HB 14.4 Tbps per GPU (of flops2024), "
        "NIC 80 Gbps per GPU (given)"
    )


def test_links_out_of_range_are_named():
    for arguments, complaint in (
        ({"hb_domain_size": 0}, "hb_domain_size is 0"),
        ({"nic": -1.0}, "nic is -1.0"),
        ({"hb": "3 kW"}, "'3 kW'"),
    ):
        with pytest.raises(ValueError, match=complaint):
            platform_links("DGX H100", **arguments)


def test_a_machine_has_the_platforms_links_where_none_are_given():
    own = catalog_machine("GB200 NVL72")
    assert catalog_machine("GB200 NVL72", hb_domain_size=None, nic_Bps=None) == own
    assert (own.hb_domain_size, own.nic_Bps) == (72, 5e10)
    given = catalog_machine("GB200 NVL72", "fp8", 64, 1e10)
    assert (given.hb_domain_size, given.nic_Bps, given.hb_Bps) == (64, 1e10, own.hb_Bps)
