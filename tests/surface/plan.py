"""Good calls of what is public in railcore.engines.plan."""

import math

from railcore.engines.plan.answer import Answer, sizing_of
from railcore.engines.plan.case import case_of
from railcore.engines.plan.choice import merged
from railcore.engines.plan.evidence import grade_of, source_text, support
from railcore.engines.plan.find import useful_racks
from railcore.engines.plan.page import Axis, Label, place_picture
from railcore.engines.plan.planning import plan
from railcore.engines.plan.sections import capital
from railcore.engines.plan.shown import interval, shown
from railcore.engines.plan.site import FoundSite
from railcore.engines.plan.spec import check_key, read_spec, read_value, spec_values
from railcore.facts.catalog import Value
from railcore.network.topology.rails import rail_only
from railcore.systems.datacenter.rack_network import PricedNetwork
from railcore.systems.datacenter.sizing import datacenter_size

FABRIC = rail_only(64, 8, 16)

Answer(
    "Clos",
    fabric=FABRIC,
    racks=8,
    sizing=datacenter_size(
        platform="DGX H100",
        racks=8,
        network=PricedNetwork(76800.0, 4990.0),
        compute_share=1.0,
        network_share=0.0,
        other_power_share=0.0,
        rack_usd=300000.0,
        rack_w=10200.0,
        pue=1.2,
    ),
    numbers={
        "gpus": 64,
        "switches": 1.0,
        "link_ends": 128.0,
        "modules": 128.0,
        "network_usd": 76800.0,
        "network_w": 4990.0,
        "purchase_usd": 2480000.0,
        "power_w": 104000.0,
    },
    warnings=(),
)
sizing_of(
    case_of(
        read_spec(
            {
                "cluster": {"platform": "DGX H100", "gpus": 512},
                "job": {
                    "model": "Llama-3 8B",
                    "tokens": 1000000000000.0,
                    "batch": 512,
                    "search": {"context": 1, "micro_batch": 1},
                },
                "network": {"candidates": "all"},
            }
        )
    ),
    64,
    711000.0,
    5570.0,
    {},
)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 64},
            "job": {"model": "Llama-3 405B", "tokens": None, "batch": None, "search": {}},
            "network": {"candidates": "all"},
        }
    )
).batches(64)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).books({})
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).counts(512)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).number(("prices", "energy", "pue"), {}, None)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).operating_prices({}, None)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).rack_costs({})
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).radix_of_planes(2)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512, "include": ["storage"]},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": ["rail-only"]},
        }
    )
).side_networks(512)
case_of(
    read_spec(
        {
            "cluster": {"platform": "DGX H100", "gpus": 512},
            "job": {
                "model": "Llama-3 8B",
                "tokens": 1000000000000.0,
                "batch": 512,
                "search": {"context": 1, "micro_batch": 1},
            },
            "network": {"candidates": "all"},
        }
    )
).tried(512)
merged([Answer(name="a", note="x", numbers={}), Answer(name="b", note="x", numbers={})])
grade_of("gpus", [])
source_text(
    [
        Value(
            family="platforms",
            name="DGX H100",
            parameter="price",
            value=300000.0,
            low=200000.0,
            high=450000.0,
            unit="USD",
            kind="assumed",
            source="engineering estimate: reseller quotes of 200,000 to 450,000 USD; no public list price",
            as_of="2024",
            note="with support more",
            shape="log",
        )
    ]
)
support("DGX H100", "Llama-3 8B")
useful_racks(
    case_of(
        read_spec(
            {
                "cluster": {"platform": "DGX H100", "power": "180000.0 W"},
                "job": {
                    "model": "Llama-3 8B",
                    "tokens": 1000000000000.0,
                    "batch": 360,
                    "search": {"context": 1, "micro_batch": 1},
                },
                "network": {"candidates": ["rail-only"]},
            }
        )
    ),
    6,
    13,
)
Axis(350.0, 579.0, 426, 28.0)
Axis(350.0, 579.0, 426, 28.0).at(412.0)
Axis(-104.0, -94.0, 62.0, 576).ticks(6)
Label(("limit 60",), 254.0, 420, "end")
place_picture(
    {
        "caption": "Places that have the power",
        "points": [
            {"label": "Abilene, Texas", "latitude": 32.5, "longitude": -99.7, "text": "310 MW free, 8 ms to Dallas"},
            {"label": "Lubbock, Texas", "latitude": 33.6, "longitude": -102.0, "text": "270 MW free"},
            {"label": "Midland, Texas", "latitude": 32.0, "longitude": -102.0, "text": "265 MW free"},
            {"label": "Odessa, Texas", "latitude": 31.9, "longitude": -102.0, "text": "260 MW free"},
            {"label": "Houston", "latitude": 29.8, "longitude": -95.4, "text": "no room"},
        ],
    },
    600,
)
plan(
    {
        "cluster": {"platform": "DGX H100", "gpus": 64},
        "job": {
            "model": "Llama-3 8B",
            "tokens": 1000000000000.0,
            "batch": 72,
            "search": {"context": 1, "micro_batch": 1},
        },
        "network": {"candidates": ["rail-only"]},
    }
)
plan(
    {
        "cluster": {"platform": "DGX H100", "gpus": 512},
        "job": {
            "model": "Llama-3 8B",
            "tokens": 1000000000000.0,
            "batch": 512,
            "search": {"context": 1, "micro_batch": 1},
        },
        "network": {"candidates": "all"},
    }
).answer("Clos")
plan(
    {
        "cluster": {"platform": "DGX H100", "gpus": 512},
        "job": {
            "model": "Llama-3 8B",
            "tokens": 1000000000000.0,
            "batch": 512,
            "search": {"context": 1, "micro_batch": 1},
        },
        "network": {"candidates": "all"},
    }
).fabric("rail-only")
plan(
    {
        "cluster": {"platform": "DGX H100", "gpus": 512},
        "job": {
            "model": "Llama-3 8B",
            "tokens": 1000000000000.0,
            "batch": 512,
            "search": {"context": 1, "micro_batch": 1},
        },
        "network": {"candidates": "all"},
    }
).search("rail-only")
capital("rail-only")
interval("mfu", math.nan, math.nan)
shown("gpus", 8)
FoundSite(106000.0, note="site: radius_m is 1.0: give 5000 to 150000 m (5 to 150 km)")
spec_values({"cluster": {"platform": "DGX H100", "gpus": 64}})
check_key("cluster.gpus")
read_value("cluster.gpus", "64")
