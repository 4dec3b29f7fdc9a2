"""Pictures of rail designs: no text over another or off the page, and what they show is what was counted."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.collections import LineCollection, PatchCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch

from suite import legible, plotting
from suite.deployment.subnets import AddressPlan
from suite.drawing.diagram import FAINT, INK
from suite.drawing.rail_designs import front_panel, nic_wiring, pod_figure, rail_switch_strips
from suite.drawing.switch_tables import switch_tables
from suite.drawing.symbols import rail_colour
from suite.nwktimes2025 import rail_designs as designs
from suite.nwktimes2025 import rail_notes


@pytest.fixture(autouse=True)
def _style():
    plotting.house_style()
    yield
    plt.close("all")


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def boxes(figure, colour):
    """Small boxes of a colour, which are drawn as collections."""
    rounded = [collection for collection in figure.axes[0].collections if isinstance(collection, PatchCollection)]
    return sum(to_hex(face).upper() == colour for patches in rounded for face in patches.get_facecolors())


def numbers_drawn(figure):
    """Places of numbers in small boxes, which are drawn as outlines."""
    return [
        tuple(place)
        for collection in figure.axes[0].collections
        if type(collection) is PathCollection
        for place in collection.get_offsets()
    ]


def line_sets(figure):
    return [collection for collection in figure.axes[0].collections if isinstance(collection, LineCollection)]


def wiring(figure, by):
    plan = designs.rail_plan(figure)
    titles, notes = designs.switch_titles(plan), rail_notes.wiring_notes(plan)
    return plan, nic_wiring(designs.as_printed(plan.ports), plan.trunks, titles, figure, notes, by)


@pytest.mark.parametrize(("figure", "by"), [("fig13_4", "interface"), ("fig13_5", "interface"), ("fig13_7", "rail")])
def test_every_nic_port_has_a_line_of_its_rail_and_peer_links_are_drawn(figure, by):
    plan, drawn = wiring(figure, by)
    assert not legible.overlaps(drawn)
    colours = [to_hex(colour).upper() for lines in line_sets(drawn) for colour in lines.get_colors()]
    peers = int((plan.trunks["kind"] == "peer").sum())
    rails = [rail_colour(rail) for rail in plan.ports["rail"]]
    assert sorted(colours) == sorted(rails + [INK.upper()] * bool(peers))
    assert sum(len(lines.get_segments()) for lines in line_sets(drawn)) == len(rails) + peers
    assert ("Peer links of MLAG" in texts(drawn)) == bool(peers) == (figure != "fig13_4")
    if by == "interface":
        numbers = len(plan.ports) + len(plan.ports.drop_duplicates(["server", "gpu"])) + 2 * peers
        assert len(set(numbers_drawn(drawn))) == numbers


def test_of_rails_the_interfaces_are_named():
    plan, drawn = wiring("fig13_7", "rail")
    assert texts(drawn).count("Rail 2:\n13, 16, 19, 22") == 2
    text = "32 GPUs, 8 rails, 2 x 200 Gbps MLAG, 400 Gbps per GPU"
    assert rail_notes.segment_document(plan) == [(text, "reproduced")]


def test_with_own_numbers_no_line_is_the_documents(monkeypatch):
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")
    assert rail_notes.segment_document(designs.rail_plan("fig13_7")) == []
    assert len(rail_notes.pod_notes("fig13_8", designs.rail_design("fig13_8"))) == 1


def test_hosts_and_switches_are_numbered_through():
    fabric = designs.rail_design("fig13_9")
    shown = texts(pod_figure(fabric.graph(), ""))
    for name, count in (("Host ", 16), ("Rail switch ", 8), ("Spine ", 8), ("Super-Spine ", 4)):
        firsts = [text.split("\n")[0] for text in shown if text.startswith(name)]
        assert sorted(firsts) == sorted(f"{name}{number}" for number in range(1, count + 1))
    assert {"tier 1", "tier 2", "tier 3"} <= set(shown)


def test_of_many_rail_switches_the_first_are_drawn():
    plan = designs.own_plan(designs.own_segment(126, 2, 1, "51.2T", "200 Gbps", 8))
    drawn = rail_switch_strips(plan.ports, designs.switch_notes(plan), "mine")
    assert not legible.overlaps(drawn)
    assert drawn.get_suptitle() == "mine (7 of 16 switches)"


def test_the_panel_has_every_interface_once():
    panel = designs.front_panel_table(designs.rail_plan("fig13_7"))
    plan = designs.rail_plan("fig13_7")
    notes, peers = rail_notes.panel_notes(plan, panel, designs.interface_check(plan)), designs.peer_interfaces(plan)
    drawn = front_panel(panel, designs.PANEL_ROWS, "panel", notes, peers)
    assert not legible.overlaps(drawn)
    assert len(set(numbers_drawn(drawn))) == 48
    assert all(boxes(drawn, rail_colour(rail)) == 4 for rail in range(1, 9)) and boxes(drawn, FAINT) == len(peers) == 2
    assert "14 x 400 Gbps = 5.6 Tbps: oversubscription 1.14:1" in notes[0] and "32 of 32" in notes[1]


@pytest.mark.parametrize("figure", ["fig13_8", "fig13_9"])
def test_a_pod_says_what_its_switches_carry(figure):
    fabric = designs.rail_design(figure)
    graph = fabric.graph()
    notes = rail_notes.pod_notes(figure, fabric)
    drawn = pod_figure(graph, figure, notes)
    assert not legible.overlaps(drawn)
    shown = "\n".join(texts(drawn))
    assert shown.count("↓ 32 x 100 Gbps\n↑↓ 3.2 Tbps") == fabric.switches_by_tier[0]
    trunks = [edge for *edge, at in graph.edges(data=True) if at["kind"] == "trunk"]
    hosts = {(graph.nodes[a]["domain"], b) for a, b, at in graph.edges(data=True) if at["kind"] == "host"}
    assert sum(len(lines.get_segments()) for lines in line_sets(drawn)) == len(trunks) + len(hosts)
    assert f"Pod 1: {fabric.gpus // fabric.pods} GPUs" in shown
    assert [verdict for _, verdict in notes] == ["", "reproduced", ""] and "non-blocking" in shown


@pytest.mark.parametrize("figure", list(designs.SUBNETS))
def test_what_is_inside_a_switch_is_readable(figure):
    contents = designs.switch_contents(figure)
    drawn = switch_tables(**contents, title=figure, note="Ours: MAC addresses.")
    assert not legible.overlaps(drawn)
    shown = "\n".join(texts(drawn))
    assert all(mac in shown for mac in contents["macs"]["mac"]) and all(net in shown for net in designs.SUBNETS[figure])
    assert ("NOT VALID" in shown) == (figure != "fig13_12") and "NEXT_HOP" in shown
    frame = drawn.axes[0].get_window_extent()
    for text in drawn.axes[0].texts:  # nothing leaves the page, nor the box that it stands in
        extent = text.get_window_extent(drawn.canvas.get_renderer())
        holders = [p.get_window_extent() for p in drawn.axes[0].patches if isinstance(p, FancyBboxPatch)]
        x, y = (extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2
        inside = [box for box in holders if box.contains(x, y)]
        smallest = min(inside, key=lambda box: box.width * box.height, default=frame)
        assert extent.x0 >= smallest.x0 - 1 and extent.x1 <= smallest.x1 + 1, text.get_text()
        assert extent.y0 >= smallest.y0 - 1 and extent.y1 <= smallest.y1 + 1, text.get_text()


@pytest.mark.parametrize(("servers", "ports", "rails"), [(1, 1, 1), (8, 2, 4), (32, 1, 1), (4, 2, 8), (32, 2, 1)])
def test_strips_of_any_segment_are_readable(servers, ports, rails):
    fabric = designs.own_segment(servers, ports, rails, designs.SWITCH, "200 Gbps", 8)
    plan = AddressPlan(fabric)
    drawn = rail_switch_strips(plan.ports, designs.switch_notes(plan), "strips")
    assert not legible.overlaps(drawn)
    assert sum(boxes(drawn, rail_colour(rail)) for rail in range(1, 9)) == len(plan.ports)
