"""Diagrams of servers, models and Ultra Ethernet: no text collides, counts are those of the objects."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from railcore.catalog.units import MiB
from railcore.deploy.server import catalog_server
from suite import legible
from suite.colours import VERDICTS
from suite.drawing import servers
from suite.nwktimes2025 import servers as document
from suite.nwktimes2025.model_memory import model_memory_table
from suite.nwktimes2025.ultra_ethernet import fabric_planes

SHARED = document.shared_nic_server()
SERVERS = {
    "shared": SHARED,
    "per GPU": document.nic_per_gpu_server(),
    "one PCIe switch each": replace(SHARED, pcie_switches=8, nics=8),
    "H100": catalog_server("DGX H100"),
    "A100": catalog_server("DGX A100"),
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def texts(figure):
    ax = figure.axes[0]
    lines = [line for marks in ax.collections for line in marks.get_label().split("\n")]
    return [text.get_text() for text in ax.texts] + lines


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_drawn_with_all_its_parts_and_no_text_collides(name):
    box = SERVERS[name]
    lines = document.server_lines(box) if name in ("shared", "per GPU") else ["a line"]
    figure = servers.server_diagram(box.graph(), name, {}, document.server_alerts(box), lines)
    assert legible.overlaps(figure) == []
    for kind, count in (("GPU ", box.gpus), ("NIC ", box.nics), ("PCIe switch ", box.pcie_switches)):
        assert sum(text.startswith(kind) for text in texts(figure)) == count
    chips = len(box.chip_links) * box.baseboards
    assert sum(text.startswith("NVSwitch") for text in texts(figure)) == chips


def test_the_documents_server_shows_its_links_and_what_gpus_get():
    alerts, lines = document.server_alerts(SHARED), document.server_lines(SHARED)
    notes, across = document.server_notes(SHARED), document.across_note(SHARED)
    figure = servers.server_diagram(SHARED.graph(), "Fig.", notes, alerts, lines, {}, across)
    words = "\n".join(texts(figure))
    assert words.count("4 links, 100 GB/s") == 4 and "5 + 4 + 4 + 5 = 18 links" in words and "3.125 GB/s each" in words
    assert "the bottleneck: 8 GPUs share it" in words and "800 GB/s both ways" in words


def test_too_few_lanes_are_said_in_the_red_part():
    server = document.nic_per_gpu_server()
    alerts, lines = document.server_alerts(server), document.server_lines(server)
    figure = servers.server_diagram(server.graph(), "Fig.", document.server_notes(server), alerts, lines)
    assert (
        "144 lanes are too few, 8 GPUs and 8 NICs need 256: 2 switches (drawn as in the document: 1 switch)"
        in "\n".join(texts(figure))
    )


def test_what_the_document_has_is_shown_with_the_verdict():
    said = document.documents_bandwidths(SHARED)
    assert {kind: verdict for kind, (_, verdict) in said.items()} == {
        "hb": "reproduced",
        "pcie": "differs",
        "nic": "reproduced",
        "across": "differs",
    }
    figure = servers.server_diagram(SHARED.graph(), "Fig.", document.server_notes(SHARED), {}, [], said, "a note")
    assert legible.overlaps(figure) == []
    red = [text.get_text() for text in figure.axes[0].texts if text.get_color() == VERDICTS["differs"]]
    assert [text.replace("\n", " ") for text in red] == [
        "document: 900 GB/s in total; ours differs",
        "document: 64 GB/s both ways, 32 one way; ours differs",
    ]
    table = document.document_models()
    figure = servers.model_memory_diagram(
        table, 81559 * MiB, 8, "models", document.gpu_memory_lines("H100", table), document.documents_models(table)
    )
    red = [text.get_text() for text in figure.axes[0].texts if text.get_color() == VERDICTS["differs"]]
    assert legible.overlaps(figure) == [] and red == []  # ten GPUs of 80 GiB hold 810 GB
    words = "\n".join(texts(figure))
    assert "405B takes 11 GPUs" in words and "8 GPUs of 80 GB has 640 GB" in words


def test_the_documents_rows_come_first_and_ours_stand_beside_them():
    every = model_memory_table(document.MODEL_PARAMETERS, ["fp8", "bf16"], "H100", 8)
    said = document.documents_models(document.document_models())
    shown = document.models_to_show(every, said, "H100")
    assert len(shown) == len(every) and len(shown.columns) == 8
    assert list(shown["document"][:3]) == [said[name][0] for name in document.MODEL_PARAMETERS]
    assert set(shown["document"][3:]) == {"–"} and "GPUs of 85.5 GB (sold as 80 GB)" in shown
    assert "document" not in document.models_to_show(every, {}, "H100")


def test_with_own_numbers_nothing_is_the_documents(monkeypatch):
    monkeypatch.setenv("RAILCORE_PARAMETERIZED", "1")
    said, server = document.documents_bandwidths(SHARED), document.nic_per_gpu_server()
    models, delays = document.documents_models(document.document_models()), document.documents_delays()
    assert said == models == {} and {told[1:] for told in delays.values()} == {("", "")}
    notes, lines = document.server_notes(server), document.server_lines(server)
    assert len(lines) == 1 and any("2 switches (drawn: 1 switch)" in note for note in notes.values())
    drawn = servers.server_diagram(server.graph(), "Fig.", notes, {}, lines, said)
    system = document.two_node_system()
    graph, contexts = system.graph(), system.delivery_contexts()
    terms = servers.ultra_ethernet_diagram(graph, fabric_planes(graph), contexts, "terms", delays)
    assert "document" not in "\n".join([*texts(drawn), *texts(terms)])


def test_models_fill_gpus_one_after_the_other():
    table = document.document_models()
    figure = servers.model_memory_diagram(table, 81559 * MiB, 8, "models")
    assert legible.overlaps(figure) == []
    filled = [text for text in texts(figure) if text.endswith("\nGB")]
    assert len(filled) == table["gpus"].sum() and "10 GPUs, 2 servers" in "\n".join(texts(figure))


def test_ultra_ethernet_shows_each_term():
    system = document.two_node_system()
    graph = system.graph()
    contexts, delays = system.delivery_contexts(), document.documents_delays()
    figure = servers.ultra_ethernet_diagram(graph, fabric_planes(graph), contexts, "terms", delays)
    assert legible.overlaps(figure) == []
    words = "\n".join(texts(figure))
    assert all(
        term in words for term in ("FEP 111", "FA 222", "PDC 4", "CCC 1", "PASID 2", "PID 1", "E1", "Leaf 102", "FI 4")
    )
    assert "≤ 10 µs" in words and words.count("≤ 1 µs") == 2 and "fabric: 4 FIs" in words
