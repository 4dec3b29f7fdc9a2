"""Ultra Ethernet's terms on a graph: planes are found, contexts stay in a plane, parts have one owner."""

from dataclasses import replace

import pytest

from railcore.documents.nwktimes2025 import ultra_ethernet
from railcore.documents.nwktimes2025.ultra_ethernet import FabricEndpoint, UltraEthernetSystem, fabric_planes


def endpoint(plane, node, leaf_port):
    name = f"{plane}.{node}"
    own = {key: f"{key} {name}" for key in ("gpu", "interface", "port", "process", "address_space")}
    return FabricEndpoint(
        f"FEP {name}", f"FA {name}", node=f"Node {node}", leaf=f"Leaf {plane}", leaf_port=leaf_port, **own
    )


def system(planes=2, nodes=2, spines=("Spine",)):
    ends = [endpoint(plane, node, f"E{node}") for plane in range(1, planes + 1) for node in range(1, nodes + 1)]
    return UltraEthernetSystem(ends, spines)


@pytest.mark.parametrize(("planes", "nodes"), [(1, 2), (2, 2), (4, 3)])
def test_a_leaf_of_its_own_is_a_plane_and_contexts_stay_in_it(planes, nodes):
    one = system(planes, nodes)
    graph = one.graph()
    assert len(ultra_ethernet.parts_of_kind(graph, "fi")) == planes * nodes
    assert [len(members) for members in fabric_planes(graph)] == [nodes] * planes
    assert len(fabric_planes(graph, ("leaf", "spine"))) == 1  # shared spines join all leaves
    contexts = one.delivery_contexts()
    assert len(contexts) == planes * nodes * (nodes - 1) and contexts["ccc"].is_unique
    plane = one.table().set_index("fep")["plane"]
    assert (plane[contexts["source"]].to_numpy() == plane[contexts["target"]].to_numpy()).all()


def test_ways_cross_one_switch_in_a_plane_and_three_between_planes():
    graph = system().graph()
    assert ultra_ethernet.switches_between(graph, "FEP 1.1", "FEP 1.2") == ["Leaf 1"]
    assert ultra_ethernet.longest_way(graph) == ["Leaf 1", "Spine", "Leaf 2"]
    with pytest.raises(ValueError, match=r"no way from FEP 1\.1 to FEP 2\.2: give the system spines"):
        ultra_ethernet.switches_between(system(spines=()).graph(), "FEP 1.1", "FEP 2.2")


def test_spines_of_their_own_are_two_planes_all_the_same():
    first, second = (replace(endpoint(1, node, f"E{node}"), leaf=f"Leaf {node}") for node in (1, 2))
    graph = UltraEthernetSystem([first, second], ["Spine"]).graph()
    assert len(fabric_planes(graph)) == 2 and len(fabric_planes(graph, ("leaf", "spine"))) == 1


def test_two_endpoints_may_share_an_interface_and_its_port():
    first, second = endpoint(1, 1, "E1"), endpoint(1, 2, "E2")
    extra = replace(first, name="FEP x", address="FA x")
    graph = UltraEthernetSystem([first, extra, second]).graph()
    assert len(ultra_ethernet.parts_of_kind(graph, "fi")) == 2 and len(fabric_planes(graph)[0]) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": "FA 1.1"}, r"address 'FA 1\.1' of FEP 1\.2 is taken"),
        ({"gpu": "gpu 1.1"}, "gpu"),
        ({"interface": "interface 1.1"}, "interface"),
        ({"process": "process 1.1"}, "process"),
        ({"leaf_port": "E1"}, "leaf_port E1 of Leaf 1 has ports"),
    ],
)
def test_what_has_two_owners_is_refused(changes, words):
    first, second = endpoint(1, 1, "E1"), endpoint(1, 2, "E2")
    with pytest.raises(ValueError, match=words):
        UltraEthernetSystem([first, replace(second, **changes)])
    with pytest.raises(ValueError, match="endpoints are empty"):
        UltraEthernetSystem([])


def test_endpoints_of_one_node_on_one_leaf_have_no_context_to_each_other():
    ends = system(planes=2, nodes=2, spines=()).endpoints
    joined = UltraEthernetSystem([replace(end, leaf="Leaf", leaf_port=f"E{i}") for i, end in enumerate(ends)])
    contexts = joined.delivery_contexts()
    node = {end.name: end.node for end in ends}
    assert len(contexts) == 8 and all(
        node[a] != node[b] for a, b in contexts[["source", "target"]].itertuples(index=False)
    )
