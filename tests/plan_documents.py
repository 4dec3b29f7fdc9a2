"""Documents for the page of a plan, made by hand: eight candidates, one of them without numbers."""

COLUMNS = [
    ("days", "training", "days", "Time until the last token is trained, with stops and repairs."),
    ("training_usd", "cost of the training", "M USD", "Shares of all parts over their life, energy and people."),
    ("build_usd", "to build", "M USD", "What is paid before the first step."),
    ("tokens_rate", "tokens", "M/s", "Tokens a second while all parts are up."),
    ("goodput", "goodput", "%", "Share of the time that ends in the model."),
    ("power", "power", "MW", "At the meter of the site."),
    ("lost", "one switch lost", "%", "Tokens a second that are left when the worst switch fails."),
]
INTERVALS = {"days": 0.14, "training_usd": 0.12, "build_usd": 0.1, "tokens_rate": 0.1, "goodput": 0.03, "power": 0.05}
CANDIDATES = [
    ("rail-only", "best", "#D55E00", (51.2, 412e6, 148e6, 3.53, 93.1, 24.1, 71)),
    ("rail-optimized", "tie", "#0072B2", (50.8, 425e6, 171e6, 3.56, 93.3, 24.4, 88)),
    ("photonic rails", "other", "#CC79A7", (54.9, 427e6, 139e6, 3.29, 92.2, 23.2, 52)),
    ("rails under an oversubscribed layer", "other", "#56B4E9", (51.6, 419e6, 160e6, 3.5, 93.2, 24.2, 80)),
    ("two planes", "other", "#009E73", (51.0, 436e6, 190e6, 3.54, 94.0, 24.9, 96)),
    ("Clos, 2 to 1", "missed", "#E69F00", (61.9, 466e6, 151e6, 2.92, 92.9, 24.0, 85)),
    ("single rail", "missed", "#000000", (68.3, 495e6, 120e6, 2.64, 91.0, 23.6, 0)),
]
DRAWING = {
    "caption": "Rail-only: what is built",
    "hosts": "171 GB200 NVL72",
    "servers": 171,
    "tiers": [
        {"label": "216 leaves", "links": "12,312 links of 400 Gbps"},
        {"label": "144 spines", "links": "12,000 links of 400 Gbps"},
    ],
    "groups": 72,
    "joined_from": None,
    "planes": 1,
    "all_groups": True,
    "note": "72 rails, not joined",
    "colour": "#D55E00",
}
UNITS = {"days": "days", "training_usd": "M USD", "build_usd": "M USD", "tokens_rate": "M/s", "power": "MW"}


def number(key, value):
    scale = 1e6 if key.endswith("usd") else 1
    share = INTERVALS.get(key, 0)
    low, high = value * (1 - share), value * (1 + 1.2 * share)
    digits = 0 if scale > 1 else 2 if value < 10 else 1
    grade = {"days": "mixed", "training_usd": "assumed", "build_usd": "datasheet", "power": "datasheet"}.get(key)
    return {
        "value": value,
        "low": low,
        "high": high,
        "text": f"{value / scale:.{digits}f} {UNITS.get(key, '%')}",
        "interval": f"{low / scale:.{digits}f} to {high / scale:.{digits}f}" if share else "",
        "grade": grade or "derived",
        "source": f"made up for this test: {key}",
    }


def cell(text, grade="", source=""):
    return {"text": text, "grade": grade, "source": source}


def table(caption, head, *rows):
    """A table whose numbers stand on the right."""
    align = "l" + "".join("r" if any(mark.isdigit() for mark in str(cells)) else "l" for cells in rows[0][1:])
    return {"caption": caption, "head": head.split(", "), "align": align, "rows": [list(row) for row in rows]}


def section(key, title, **parts):
    return {"lead": "", "tables": [], "notes": [], "bars": None, "places": None, "id": key, "title": title} | parts


def sections():
    iteration = [cell(text, grade, "iteration model") for text, grade in (("4.75 s", "derived"), ("5.74 s", "mixed"))]
    strategy = table(
        "The strategy of each network: ranks, memory, and what an iteration is made of",
        "network, tensor, pipeline, data, memory, iteration, exposed communication",
        ("rail-only", "8", "9", "171", "151 GB", iteration[0], "11.2%"),
        ("Clos, 2 to 1", "8", "18", "85", "126 GB", iteration[1], "23.8%"),
    )
    parts = [("compute", 3.9, "#6A6A6A"), ("tensor", 0.31, "#0072B2"), ("pipeline", 0.22, "#CC79A7")]
    rows = []
    for name, factor in (("rail-only", 1.0), ("rail-optimized", 0.99), ("Clos, 2 to 1", 1.15)):
        times = [*((label, seconds * factor, colour) for label, seconds, colour in parts)]
        times.append(("data", 0.3 * factor**5, "#D55E00"))
        told = [{"label": label, "value": s, "text": f"{s:.2f} s", "colour": colour} for label, s, colour in times]
        rows.append({"label": name, "parts": told})
    places = [
        ("Abilene, Texas", 32.45, -99.73, "310 MW free, 8 ms to Dallas"),
        ("Lubbock, Texas", 33.58, -101.86, "270 MW free"),
        ("Midland, Texas", 32.0, -102.08, "265 MW free"),
        ("Odessa, Texas", 31.85, -102.37, "260 MW free"),
        ("Houston", 29.76, -95.37, "no room"),
    ]
    points = [dict(zip(("label", "latitude", "longitude", "text"), place, strict=True)) for place in places]
    price, stops = cell("3.4 M USD", "assumed", "street offers of 2025"), cell("41,000 h", "paper", "Llama 3, table 5")
    assumed = table(
        "What is assumed, and how far it may be off",
        "what, value, low, high, source",
        ("price of a GB200 NVL72 rack", price, "2.9 M USD", "3.9 M USD", "Street offers, none of them binding"),
        ("time between stops of one GPU", stops, "30,000 h", "55,000 h", "Llama 3 herd of models, on H100"),
    )
    bars = {"caption": "What an iteration is made of", "unit": "s", "rows": rows}
    return [
        section("strategy", "Strategy", lead="One search a network.", tables=[strategy], bars=bars),
        section("failures", "Fabrics and failures", notes=["A failed rail stops rail-only jobs."]),
        section("site", "Energy and site", places={"caption": "Places that have the power", "points": points}),
        section(
            "assumptions", "Assumptions and boundary", tables=[assumed], notes=["Energy elsewhere is not counted."]
        ),
    ]


def candidate(name, state, colour, values, factor):
    """A candidate; factor: of its days and the cost of its training."""
    scale = {"days": factor, "training_usd": factor}
    keys = [column[0] for column in COLUMNS]
    numbers = {key: number(key, value * scale.get(key, 1)) for key, value in zip(keys, values, strict=True)}
    empty = {"also": [], "why_same": "", "note": "", "misses": ["days"] if state == "missed" else []}
    return empty | {"name": name, "state": state, "colour": colour, "numbers": numbers}


def document(title="12,312 GB200 for Llama-3 405B", factor=1.0, limit=60.0):
    """A document made by hand: seven candidates with numbers, one without."""
    candidates = [candidate(*row, factor) for row in CANDIDATES]
    candidates[1] |= {"also": ["fat tree", "Clos"], "why_same": "two tiers of this radix hold all GPUs either way"}
    grey = {**candidates[0], "name": "dragonfly", "state": "grey", "numbers": {}, "misses": [], "colour": "#6A6A6A"}
    candidates.insert(2, {**grey, "note": "No model of its routing; its price alone would say little."})
    cost = {"key": "training_usd", "label": "cost of the training (M USD)", "scale": 1e6, "limit": 480e6, "wish": 400e6}
    return {
        "title": title,
        "subtitle": "15.6 T tokens, 16.8 M tokens a batch, bf16",
        "headline": "Rail-only trains it in 51.2 days for 412 M USD, 13 M less than rail-optimized, within 60 days and"
        " 25 MW; a failed switch a week, or rails 8% cheaper, would turn it.",
        "rests_on": ["This rests on 11 published runs like it.", "The nearest published run has 512 GPUs."],
        "run": "Rail-only: 3 s an iteration, MFU 45.9%, 2.13 USD a GPU-hour.",
        "sizes": table("Sizes next to this one", "size, GPUs", ("this plan", "12,312"), ("one rack less", "12,240")),
        "risks": ["Time: one case in twenty takes more than 60 days.", "Network: a tie.", "Failures: many."],
        "next_steps": ["Get quotes for 171 GB200 NVL72.", "Time some iterations."],
        "drawing": DRAWING,
        "verdicts": [
            {"text": "Clos 2 to 1 and single rail take more than 60 days.", "kind": "bad"},
            {"text": "Rail-optimized ties: 13 M USD are less than what prices may be off.", "kind": "note"},
            {"text": "In 78 of 100 draws rail-only costs least.", "kind": "good"},
        ],
        "deciding": ["days", "training_usd"],
        "columns": [dict(zip(("key", "label", "unit", "meaning"), column, strict=True)) for column in COLUMNS],
        "candidates": candidates,
        "chart": {"x": {"key": "days", "label": "training time (days)", "limit": limit, "wish": None}, "y": cost},
        "sections": sections(),
        "made": "Made by an architect on 2026-01-31 with railcore 0.1.0.",
    }


def documents():
    return [document(), document("12,312 GB200, half the tokens", 0.5, 365.0)]
