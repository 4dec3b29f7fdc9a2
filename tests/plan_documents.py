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
    ("rail-only", "best", "#D55E00", "circle", (51.2, 412e6, 148e6, 3.53, 93.1, 24.1, 71)),
    ("rail-optimized", "tie", "#0072B2", "square", (50.8, 425e6, 171e6, 3.56, 93.3, 24.4, 88)),
    ("photonic rails", "other", "#CC79A7", "diamond", (54.9, 427e6, 139e6, 3.29, 92.2, 23.2, 52)),
    ("rails under an oversubscribed layer", "other", "#56B4E9", "plus", (51.6, 419e6, 160e6, 3.5, 93.2, 24.2, 80)),
    ("two planes", "other", "#009E73", "triangle", (51.0, 436e6, 190e6, 3.54, 94.0, 24.9, 96)),
    ("Clos, 2 to 1", "missed", "#E69F00", "star", (61.9, 466e6, 151e6, 2.92, 92.9, 24.0, 85)),
    ("single rail", "missed", "#000000", "cross", (68.3, 495e6, 120e6, 2.64, 91.0, 23.6, 0)),
]
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


def sections():
    strategy = {
        "caption": "The strategy of each network: ranks, memory, and what an iteration is made of",
        "head": ["network", "tensor", "pipeline", "data", "memory", "iteration", "exposed communication"],
        "align": "lrrrrrr",
        "rows": [
            ["rail-only", "8", "9", "171", "151 GB", cell("4.75 s", "derived", "iteration model"), "11.2%"],
            ["rail-optimized", "8", "9", "171", "151 GB", cell("4.71 s", "derived", "iteration model"), "10.5%"],
            ["Clos, 2 to 1", "8", "18", "85", "126 GB", cell("5.74 s", "mixed", "iteration model"), "23.8%"],
        ],
    }
    parts = [("compute", 3.9, "#6A6A6A"), ("tensor", 0.31, "#0072B2"), ("pipeline", 0.22, "#CC79A7")]
    bars = {
        "caption": "What an iteration is made of",
        "unit": "s",
        "rows": [
            {
                "label": name,
                "parts": [
                    {"label": label, "value": value * factor, "text": f"{value * factor:.2f} s", "colour": colour}
                    for label, value, colour in [*parts, ("data", 0.3 * factor**4, "#D55E00")]
                ],
            }
            for name, factor in [("rail-only", 1.0), ("rail-optimized", 0.99), ("Clos, 2 to 1", 1.15)]
        ],
    }
    places = {
        "caption": "Places that have the power",
        "points": [
            {"label": "Abilene, Texas", "latitude": 32.45, "longitude": -99.73, "text": "310 MW free, 8 ms to Dallas"},
            {"label": "Lubbock, Texas", "latitude": 33.58, "longitude": -101.86, "text": "270 MW free"},
            {"label": "Midland, Texas", "latitude": 32.0, "longitude": -102.08, "text": "265 MW free"},
            {"label": "Odessa, Texas", "latitude": 31.85, "longitude": -102.37, "text": "260 MW free"},
            {"label": "Houston", "latitude": 29.76, "longitude": -95.37, "text": "no room"},
        ],
    }
    assumed = {
        "caption": "What is assumed, and how far it may be off",
        "head": ["what", "value", "low", "high", "source"],
        "align": "lrrrl",
        "rows": [
            [
                "price of a GB200 NVL72 rack",
                cell("3.4 M USD", "assumed", "street offers of 2025"),
                "2.9 M USD",
                "3.9 M USD",
                "Street offers of 2025, none of them binding; the maker prints no price",
            ],
            [
                "time between stops of one GPU",
                cell("41,000 h", "paper", "Llama 3, table 5"),
                "30,000 h",
                "55,000 h",
                "Llama 3 herd of models, table 5, on H100",
            ],
        ],
    }
    empty = {"lead": "", "tables": [], "notes": [], "bars": None, "places": None}
    return [
        {
            **empty,
            "id": "strategy",
            "title": "Strategy",
            "lead": "One search a network.",
            "tables": [strategy],
            "bars": bars,
        },
        {**empty, "id": "failures", "title": "Fabrics and failures", "notes": ["A failed rail stops rail-only jobs."]},
        {**empty, "id": "site", "title": "Energy and site", "places": places},
        {
            **empty,
            "id": "assumptions",
            "title": "Assumptions and boundary",
            "tables": [assumed],
            "notes": ["Energy outside of the site is not counted."],
        },
    ]


def document(title="12,312 GB200 for Llama-3 405B", factor=1.0, limit=60.0):
    """A document made by hand: seven candidates with numbers, one without."""
    candidates = [
        {
            "name": name,
            "also": [],
            "why_same": "",
            "note": "",
            "state": state,
            "misses": ["days"] if state == "missed" else [],
            "colour": colour,
            "marker": marker,
            "numbers": {
                column[0]: number(column[0], value * (factor if column[0] in ("days", "training_usd") else 1))
                for column, value in zip(COLUMNS, values, strict=True)
            },
        }
        for name, state, colour, marker, values in CANDIDATES
    ]
    candidates[1] |= {"also": ["fat tree", "Clos"], "why_same": "two tiers of this radix hold all GPUs either way"}
    grey = {**candidates[0], "name": "dragonfly", "state": "grey", "numbers": {}, "misses": [], "colour": "#6A6A6A"}
    candidates.insert(2, {**grey, "note": "No model of its routing; its price alone would say little."})
    return {
        "title": title,
        "subtitle": "15.6 T tokens, 16.8 M tokens a batch, bf16",
        "headline": "Rail-only trains it in 51.2 days for 412 M USD, 13 M less than rail-optimized, within 60 days and"
        " 25 MW; a failed switch a week, or rails 8% cheaper, would turn it.",
        "verdicts": [
            {"text": "Clos 2 to 1 and single rail take more than 60 days.", "kind": "bad"},
            {"text": "Rail-optimized ties: 13 M USD are less than what prices may be off.", "kind": "note"},
            {"text": "In 78 of 100 draws rail-only costs least.", "kind": "good"},
        ],
        "columns": [dict(zip(("key", "label", "unit", "meaning"), column, strict=True)) for column in COLUMNS],
        "candidates": candidates,
        "chart": {
            "x": {"key": "days", "label": "training time (days)", "limit": limit, "wish": None},
            "y": {
                "key": "training_usd",
                "label": "cost of the training (M USD)",
                "scale": 1e6,
                "limit": 480e6,
                "wish": 400e6,
            },
        },
        "sections": sections(),
        "generated": "railcore 0.1.0",
    }


def documents():
    return [document(), document("12,312 GB200, half the tokens", 0.5, 365.0)]
