"""One colour for each thing: kinds of traffic, passes, networks, links, transports, fuels; for charts and pages."""

# Okabe and Ito's palette, told apart with every common colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#6A6A6A")
GREY = COLOURS[7]
ON_ANY_GROUND = (*COLOURS[:6], "#8C6D31", GREY)  # brown in place of black, which dark pages do not show
DIFFERS = "#B00000"  # what a document has and ours differs from, what has failed
_BLUE, _VERMILION, _GREEN, _PINK, _ORANGE, _SKY, _BLACK, _ = COLOURS

# One colour for a thing in every chart and diagram; `colours_of` reads all of them.
TRAFFIC = {"tensor": _BLUE, "sequence": _BLUE, "context": _GREEN, "expert": _SKY, "pipeline": _PINK}
TRAFFIC |= {"data": _VERMILION, "data within": _ORANGE, "data between": _VERMILION, "none": GREY}
PASSES = {"compute": "#D9D9D9", "forward": _SKY, "backward": _ORANGE}
TIMES = TRAFFIC | {"linear": PASSES["compute"], "attention": "#B0C4DE", "elementwise": "#B8A58A", "logits": "#A0A0C8"}
TIMES |= {"bubble": PASSES["backward"], "circuits": "#882255", "optimizer": "#5F5F5F", "straggler": "#6F4E7C"}
TIMES |= {"once": "#3F3F3F", "other": "#8F8F8F"}  # parts of an iteration
NETWORKS = {"rail-optimized": _BLUE, "electrical rails": _BLUE, "rail-only": _VERMILION, "photonic rails": _PINK}
NETWORKS |= {"Clos": _GREEN, "fat tree": _GREEN, "any-to-any": _GREEN, "rails under an oversubscribed layer": _SKY}
NETWORKS |= {"Clos with oversubscribed leaves": _GREEN}
# Tol's muted tones, but for scale-out: they are drawn beside eight rails in the palette's colours.
LINKS = {"scale-up": "#117733", "scale-out": _VERMILION, "wide area": "#882255", "frontend": "#332288"}
LINKS |= {"storage": "#999933", "management": "#8F8F8F"}
TRANSPORTS = {"optimum": _BLACK, "spraying": _BLUE, "NDP": _GREEN, "UEC NSCC": _ORANGE, "UEC RCCC": _PINK}
TRANSPORTS |= {"flowlets": _SKY, "single path": GREY, "RoCEv2": _VERMILION, "RoCEv2 with DCQCN": _VERMILION}
FUELS = {"gas": _ORANGE, "coal": "#4D4D4D", "wind": _GREEN, "hydro": _BLUE, "solar": "#F0E442", "nuclear": _PINK}
FUELS |= {"other": "#C0C0C0"}

# Faces of what diagrams are made of, pale, so that words on them are read.
PARTS = {"gpu": "#CFE5F4", "nic": "#F3D49A", "switch": "#D9D9D9", "hb": "#BFE3D4", "pcie": "#E9D3E2", "cpu": "#EDEDED"}
PARTS |= {"storage": "#F6E3B8", "alert": "#F6D7D2", "plain": "#FFFFFF", "user": "#F7F7F7", "note": "#FAFAFA"}
PARTS |= {"gpu around": "#E4F0F8", "nic around": "#FBEFD6", "memory": "#7FB2D9", "manager": "#9CC8E6"}
ROUTES = ("#F0E442", "#B9E0F5", "#F5C9DF")  # bands along routes
BUSY, WAITS, CIRCUIT_UP = "#FFF3C4", PARTS["alert"], "#D9E9DF"  # of a timeline
LAND, BORDER, PLACE_NAME, NO_PLACE, FOUND = "#F5F3EE", "#BDB8AE", "#8A3500", "#B5AFA4", "#DDD6F2"  # of maps
POWER_LINES = {"345 kV": "#A9BDD1", "500 kV": "#6C8CAD", "765 kV": "#2F5A87", "direct current": "#8C2D04"}

# Of pages by their use, light and dark; `plan.page.TEXT_PAIRS` says which text stands on which ground.
SCHEMES = {
    "light": {"paper": "#ffffff", "plate": "#f2f4f6", "best": "#e5f0f8", "ink": "#1a1f24", "soft": "#505b66"},
    "dark": {"paper": "#14181c", "plate": "#1f262c", "best": "#17344a", "ink": "#e9edf0", "soft": "#aeb9c3"},
}
SCHEMES["light"] |= {"link": "#00558f", "good": "#0a6236", "bad": "#9c2f00", "line": "#d0d7dd"}
SCHEMES["dark"] |= {"link": "#86c5f7", "good": "#76d8a1", "bad": "#ffa57a", "line": "#3b464f"}
