"""A platform brings its own HB domain and NIC; what is given in their place is shown."""

import json
import re

import pytest

from railcore import catalog
from railcore.network.platforms import platform_links
from railcore.training.machine import catalog_machine
from suite import workspace
from suite.driver import parameters

NOTEBOOKS = {  # name of the platform in the notebooks that take one with an HB domain and a NIC
    "02": "hb_platform",
    "06": "platform",
    "07": "hb_platform",
    "08": "platform",
    "10": "platform",
    "11": "platform",
}


def notebook(number):
    """The notebook of a number, as the driver reads it."""
    found = json.loads(next(workspace.NOTEBOOKS.glob(f"{number}_*.ipynb")).read_text())
    for cell in found["cells"]:
        cell["source"] = "".join(cell["source"])
    return found


def links_of(number, *given):
    """Links that a notebook computes with where parameters are given at the shell."""
    read = notebook(number)
    run = parameters.defaults(read) | parameters.read_parameters([list(pair) for pair in given], read, number)
    return platform_links(
        run[NOTEBOOKS[number]],
        run.get("hb_domain_size"),
        run["nic"],
        hb=run.get("hb"),
        document=run.get("document", ""),
    )


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_another_platform_brings_its_own_links(number):
    for platform in catalog.names("platforms"):
        box, links = catalog.item("platforms", platform), links_of(number, (NOTEBOOKS[number], platform))
        document = {"10": "flops2024", "11": "flops2024"}.get(number, "")
        assert links.hb_domain_size == box["gpus"]
        assert links.nic_Bps == box[catalog.variant_row(box, "nic_bandwidth", document)]
        assert "given" not in links.origins


def test_strategies_of_8192_gpus_in_racks_of_72_have_the_racks_links():
    """The play of a user: another platform in notebook 08, then another NIC for it, and a mistake."""
    links = links_of("08", ("platform", "GB200 NVL72"), ("gpus", "8192"))
    box = catalog_machine("GB200 NVL72", "bf16", links.hb_domain_size, links.nic_Bps)
    assert box == catalog_machine("GB200 NVL72") and (box.hb_domain_size, box.nic_Bps) == (72, 5e10)
    changed = links_of("08", ("platform", "GB200 NVL72"), ("hb_domain_size", "64"), ("nic", "800 Gbps"))
    assert (changed.hb_domain_size, changed.nic_Bps) == (64, 1e11) and changed.origins[::2] == ("given", "given")
    for name, text in (("nic", "3 kW"), ("hb_domain_size", "a rack")):
        with pytest.raises(ValueError, match=f"parameter '{name}' is"):
            links_of("08", (name, text))


def test_sliders_follow_a_menu_of_platforms():
    """Where a panel has such a menu, the HB domain and the NIC may be left to the platform."""
    numbers = [path.stem[:2] for path in workspace.NOTEBOOKS.glob("*_*.ipynb")]
    panels = {number: notebook(number)["cells"][-1]["source"] for number in numbers}
    menus = {number: text for number, text in panels.items() if "\n    platform=(" in text}
    assert {"04", "06", "08"} <= set(menus)
    for number, text in menus.items():
        for line in re.findall(r"\n    (?:hb_domain_size|nic)=.*", text):
            assert "None" in line, (number, line)


def test_each_notebook_says_what_links_it_takes_and_takes_them():
    for number, platform in NOTEBOOKS.items():
        *cells, panel = (cell["source"] for cell in notebook(number)["cells"])
        text = "\n".join(cells)
        assert "\nprint(links)\n" in text
        for machine in re.findall(rf"catalog_machine\(\s*{platform}\b[^()]*\)", text):
            assert "links.nic_Bps" in machine and "links.hb_domain_size" in machine, (number, machine)
        if number == "08":  # whose panel has the platform, and no menu of NICs
            assert "nic_Bps=nic" in panel


@pytest.mark.parametrize("platform", catalog.names("platforms"))
def test_links_are_the_platforms_unless_given(platform):
    own, box = platform_links(platform), catalog.item("platforms", platform)
    assert (own.hb_domain_size, own.nic_Bps, own.hb_Bps) == (box["gpus"], box["nic_bandwidth"], box["hb_bandwidth"])
    changed = platform_links(platform, nic="1.2 Tbps")
    assert (changed.hb_domain_size, changed.hb_Bps, changed.nic_Bps) == (box["gpus"], own.hb_Bps, 1.5e11)


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


@pytest.mark.parametrize(
    ("given", "complaint"),
    [({"hb": "3 kW"}, "'3 kW'")],
)
def test_links_out_of_range_are_named(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        platform_links("DGX H100", **given)


def test_a_machine_has_the_platforms_links_where_none_are_given():
    own = catalog_machine("GB200 NVL72")
    assert catalog_machine("GB200 NVL72", hb_domain_size=None, nic_Bps=None) == own
    assert (own.hb_domain_size, own.nic_Bps) == (72, 5e10)
    given = catalog_machine("GB200 NVL72", "fp8", 64, 1e10)
    assert (given.hb_domain_size, given.nic_Bps, given.hb_Bps) == (64, 1e10, own.hb_Bps)
