"""Switches and links counted one by one on the wired graph: the reference for the closed forms."""

from collections import Counter


def count_parts(graph):
    """Switches (one for each chassis) and links by tier, counted from nodes and edges."""
    chassis = {(at["tier"], at["chassis"]) for _, at in graph.nodes(data=True) if at["kind"] == "switch"}
    links = Counter()
    for _, _, at in graph.edges(data=True):
        if at["kind"] != "hb":
            links[at["tier"]] += at["links"]
    return dict(sorted(Counter(tier for tier, _ in chassis).items())), dict(sorted(links.items()))
