"""One colour for each kind of traffic, part of an iteration and network, in charts and on pages; colours of pages."""

# Okabe and Ito's palette, told apart with every common colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#6A6A6A")
GREY = COLOURS[7]
_BLUE, _VERMILION, _GREEN, _PINK, _ORANGE, _SKY, *_ = COLOURS

TRAFFIC = {"tensor": _BLUE, "sequence": _BLUE, "context": _GREEN, "expert": _SKY, "pipeline": _PINK}
TRAFFIC |= {"data": _VERMILION, "data within": _ORANGE, "data between": _VERMILION, "none": GREY}
PASSES = {"compute": "#D9D9D9", "forward": _SKY, "backward": _ORANGE}
TIMES = TRAFFIC | {"linear": PASSES["compute"], "attention": "#B0C4DE", "elementwise": "#B8A58A", "logits": "#A0A0C8"}
TIMES |= {"bubble": PASSES["backward"], "circuits": "#882255", "optimizer": "#5F5F5F", "straggler": "#6F4E7C"}
TIMES |= {"once": "#3F3F3F", "other": "#8F8F8F"}  # parts of an iteration

# Of networks: by the first of these kinds whose words are all in their name.
NETWORKS = {"photonic": _PINK, "rail-only planes": "#F2A98B", "rail-only": _VERMILION, "rail-optimized planes": _SKY}
NETWORKS |= {"rail-optimized": _BLUE, "rails layer": "#8C6D31", "Clos leaves": _ORANGE, "Clos 102.4T": "#7CCBB2"}
NETWORKS |= {"Clos": _GREEN, "fat tree": _GREEN, "any-to-any": _GREEN, "electrical rails": _BLUE}


def network_colour(name: str, other: str = GREY) -> str:
    """The colour of a network by its name; `other` for one of a reader's own."""
    return next((NETWORKS[kind] for kind in NETWORKS if all(word in name for word in kind.split())), other)


# Of pages by their use, light and dark; `planner.page.TEXT_PAIRS` says which text stands on which ground.
SCHEMES = {
    "light": {"paper": "#ffffff", "plate": "#f2f4f6", "best": "#e5f0f8", "ink": "#1a1f24", "soft": "#505b66"},
    "dark": {"paper": "#14181c", "plate": "#1f262c", "best": "#17344a", "ink": "#e9edf0", "soft": "#aeb9c3"},
}
SCHEMES["light"] |= {"link": "#00558f", "good": "#0a6236", "bad": "#9c2f00", "line": "#d0d7dd"}
SCHEMES["dark"] |= {"link": "#86c5f7", "good": "#76d8a1", "bad": "#ffa57a", "line": "#3b464f"}
