"""Ultra Ethernet's terms on a graph: planes are found, contexts stay in a plane and leave the node."""

from dataclasses import replace

import pytest

from suite.nwktimes2025 import ultra_ethernet
from suite.nwktimes2025.ultra_ethernet import FabricEndpoint, UltraEthernetSystem, fabric_planes


def endpoint(plane, node, leaf_port):
    name = f"{plane}.{node}"
    names = {key: f"{key} {name}" for key in ("gpu", "interface", "port", "process", "address_space")}
    return FabricEndpoint(
        f"FEP {name}", f"FA {name}", node=f"Node {node}", leaf=f"Leaf {plane}", leaf_port=leaf_port, **names
    )


def system(planes=2, nodes=2):
    ends = [endpoint(plane, node, f"E{node}") for plane in range(1, planes + 1) for node in range(1, nodes + 1)]
    return UltraEthernetSystem(ends, ["Spine"])


@pytest.mark.parametrize(("planes", "nodes"), [(1, 2), (2, 2), (4, 3)])
def test_a_leaf_of_its_own_is_a_plane_and_contexts_stay_in_it(planes, nodes):
    one = system(planes, nodes)
    graph = one.graph()
    assert [len(members) for members in fabric_planes(graph)] == [nodes] * planes
    assert len(fabric_planes(graph, ("leaf", "spine"))) == 1  # shared spines join all leaves
    contexts = one.delivery_contexts()
    assert len(contexts) == planes * nodes * (nodes - 1) and contexts["ccc"].is_unique
    plane = one.table().set_index("fep")["plane"]
    assert (plane[contexts["source"]].to_numpy() == plane[contexts["target"]].to_numpy()).all()


def test_the_longest_way_crosses_one_switch_in_a_plane_and_three_between_planes():
    assert ultra_ethernet.longest_way(system(planes=1).graph()) == ["Leaf 1"]
    assert ultra_ethernet.longest_way(system().graph()) == ["Leaf 1", "Spine", "Leaf 2"]


def test_endpoints_of_one_node_on_one_leaf_have_no_context_to_each_other():
    ends = system().endpoints
    joined = UltraEthernetSystem([replace(end, leaf="Leaf", leaf_port=f"E{i}") for i, end in enumerate(ends)], [])
    contexts = joined.delivery_contexts()
    node = {end.name: end.node for end in ends}
    assert len(contexts) == 8
    assert all(node[a] != node[b] for a, b in contexts[["source", "target"]].itertuples(index=False))
