"""Colours of charts and diagrams alone: verdicts, links, transports, fuels, parts of a diagram, maps."""

from railcore.catalog.colours import COLOURS, GREY

ALERT = "#B00000"  # what has failed or must not be
VERDICTS = {"reproduced": "#000000", "close": "#A86A00", "differs": ALERT}  # of the ledger
_BLUE, _VERMILION, _GREEN, _PINK, _ORANGE, _SKY, _BLACK, _ = COLOURS

# One colour for a thing in every chart and diagram; `plotting.colours_of` reads all of them, and networks' of railcore.
# Tol's muted tones, but for scale-out: they are drawn beside eight rails in the palette's colours.
LINKS = {"scale-up": "#117733", "scale-out": _VERMILION, "wide area": "#882255", "frontend": "#332288"}
LINKS |= {"storage": "#999933", "management": "#737373"}
TRANSPORTS = {"optimum": _BLACK, "spraying": _BLUE, "NDP": _GREEN, "UEC NSCC": _ORANGE, "UEC RCCC": _PINK}
TRANSPORTS |= {"flowlets": _SKY, "single path": GREY, "RoCEv2": _VERMILION, "RoCEv2 with DCQCN": _VERMILION}
FUELS = {"gas": _ORANGE, "coal": "#4D4D4D", "wind": _GREEN, "hydro": _BLUE, "solar": "#F0E442", "nuclear": _PINK}
FUELS |= {"other": "#C0C0C0"}

# Faces of what diagrams are made of, pale, so that words on them are read.
PARTS = {"gpu": "#CFE5F4", "nic": "#F3D49A", "switch": "#D9D9D9", "hb": "#BFE3D4", "pcie": "#E9D3E2", "cpu": "#EDEDED"}
PARTS |= {"storage": "#F6E3B8", "alert": "#F6D7D2", "plain": "#FFFFFF", "user": "#F7F7F7", "note": "#FAFAFA"}
PARTS |= {"gpu around": "#E4F0F8", "nic around": "#FBEFD6", "memory": "#7FB2D9", "manager": "#9CC8E6"}
ROUTES = ("#F0E442", "#B9E0F5", "#F5C9DF")  # bands along routes
CRITICAL_PATH = "#882255"  # wine: railonly2025 has it red, as ALERT is
FORMULAS = "#007A7A"  # a document's formulas beside our model
BAND = "#EEEEEE"  # where values should lie; every other group of rows
SEVENTH_RAIL = "#66400A"  # brown; black is for routes
BUSY, WAITS, CIRCUIT_UP = "#FFF3C4", PARTS["alert"], "#D9E9DF"  # of a timeline
ON_DEMAND = "#701C45"  # photonic rails without provisioning: a darker pink than theirs
LAND, BORDER, PLACE_NAME, NO_PLACE = "#F5F3EE", "#BDB8AE", "#8A3500", "#B5AFA4"  # of maps
POWER_LINES = {"345 kV": "#A9BDD1", "500 kV": "#6C8CAD", "765 kV": "#2F5A87", "direct current": "#8C2D04"}
