"""Good calls of what is public in railcore.facts."""

import numpy as np
import pandas as pd

from railcore.engines.transport.kernel.layout import draw
from railcore.facts.catalog import (
    Item,
    RowNeed,
    Value,
    input_rows,
    item,
    known_name,
    missing_rows,
    names,
    near_names,
    nearest_names,
    own_version,
    related_items,
    row_needs,
    rows_to_add,
    values,
    variant_row,
)
from railcore.facts.catalog_lists import family_list
from railcore.facts.catalog_template import template, template_text
from railcore.facts.claim_rows import Claim
from railcore.facts.claims import (
    basis_counts,
    case,
    cases,
    claim,
    claim_amount,
    comparison_row,
    decided_by_assumed,
    deviation,
    differs,
    drawn_range,
    evidence_counts,
    ids,
    ledger,
    matching_claims,
    paper_value,
    record,
    verdict,
    verdict_counts,
    within_printed_digit,
)
from railcore.facts.compiled import CompiledLoop
from railcore.facts.distributions import draws, quantile
from railcore.facts.files import data
from railcore.facts.globe import (
    chord_distance,
    chord_length,
    degrees_of,
    great_circle_distance,
    great_circle_way,
    unit_vectors,
)
from railcore.facts.grounds import (
    Calibration,
    MovingInput,
    calibration_counts,
    calibrations_of,
    evidence,
    evidence_reason,
    known_claim,
    matching_ids,
    moving_inputs,
    solved_texts,
    strongest,
)
from railcore.facts.tables import (
    MarkdownText,
    aligned_table,
    csv_text,
    frame_csv,
    markdown_table,
    markdown_words,
    readable,
)
from railcore.facts.unique_rows import unique_places, unique_rows
from railcore.facts.units import (
    convert,
    counted,
    dimension_of,
    distinct,
    either,
    label,
    number,
    parse,
    show,
    significant,
    unit,
    words,
)


def doubled(name, value):
    return 2 * value


CLAIM = "railonly2023.eq1.iteration_time"
ITEM = item("platforms", "GB200 NVL72")
LEDGER = [{"id": CLAIM, "document": "railonly2023", "verdict": "reproduced", "basis": "stated", "evidence": "model"}]
TABLE = pd.DataFrame({"network": ["rail-only", "Clos"], "cost_usd": [1000000.0, 2000000.0]})

Item(
    "UDP",
    "protocols",
    (
        Value(
            family="protocols",
            name="UDP",
            parameter="header",
            value=8.0,
            low=None,
            high=None,
            unit="B",
            kind="datasheet",
            source="RFC 768",
            as_of="1980",
            note="",
        ),
    ),
)
item("gpus", "GB200").get("bf16_sparse_rate", 1.0)
item("gpus", "GB200").row("power")
RowNeed(
    family="gpus",
    parameter="fp8_sparse_rate",
    unit="TFLOP/s",
    heading="",
    meaning="peak with 2:4 sparsity",
    uses=(),
    required=False,
)
Value(
    "platforms",
    name="GB200 NVL72",
    parameter="price_flops2024",
    value=3000000.0,
    low=None,
    high=None,
    unit="USD",
    kind="paper",
    source="flops2024, Section 2",
    as_of="2024-11",
    note="a rack",
    shape="",
    own=False,
)
item("gpus", "H20")
missing_rows("gpus", "new")
names("gpus")
nearest_names("powr", item("gpus", "H100"))
near_names("H10", ["H100", "B200"])
input_rows({("gpus", "H100", "power"): item("gpus", "H100").row("power")})
own_version("floor")
related_items("gpus", "new")
row_needs("gpus")
rows_to_add("powers", "zzzz")
values("assumed")
template("prices", "mine")
Claim(
    id="railonly2025.fig3.stage_gpus",
    document="railonly2025",
    where="Fig. 3",
    claim="GPUs in one pipeline stage of GPT-1T",
    paper_value=48.0,
    unit="GPUs",
    relation="=",
    tolerance=0.0,
    note="",
    notebook="03_traffic_dense",
)
case("railonly2025.table1.n32768.r64.cost_saving")
cases("railonly2025.table1")
claim("railonly2025.text.cost_saving_min")
claim_amount(2.0, "tiers")
comparison_row(
    {
        "id": "railonly2025.table1.n32768.r64.switches_rail_only",
        "value": "1536",
        "verdict": "",
        "basis": "",
        "reason": "",
    }
)
decided_by_assumed("railonly2025.text.r64_switch_ratio", "")
deviation(6, 9)
differs("railonly2025.text.r64_switch_ratio", 0.63)
drawn_range([0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6])
ids("railonly2025.table1")
ledger(
    [
        {"id": "railonly2025.text.r64_switch_ratio", "value": "0.6", "reason": "against the table", "basis": "stated"},
        {"id": "flops2024.table1.pjm", "value": "", "reason": "no data", "basis": ""},
    ]
)
matching_claims("0.70")
paper_value("railonly2025.text.cost_saving_min")
record({"railonly2025.text.r64_tiers_rail_only": 2})
verdict(6.6, 6, "~", 0.1)
within_printed_digit(
    4.64e-07,
    Claim(
        id="nwktimes2025.fig14_1.scale_up_delay",
        document="nwktimes2025",
        where="Ultra Ethernet",
        claim="GPU-to-GPU latency over a single-tier scale-up switch",
        paper_value=1e-06,
        unit="s",
        relation="<",
        tolerance=0.0,
        note="a bound ('should be'); delays from the catalog",
        notebook="18_cluster_networks",
    ),
)
CompiledLoop(draw, {"inline": "always"})
draws([item("circuit_switches", "Polatis 6000N").row("insertion_loss")], 16)
quantile(item("control_planes", "host-driven").row("local_time"), 0.5)
data("claims.csv")
Calibration(
    "q",
    1,
    ("railonly2025.fig5.rail_bisection",),
    (),
    ("railonly2025.text.r64_switch_ratio",),
    "railonly2025.fig5.rail_bisection",
    "solved",
)
MovingInput(family="", name="all of these together", parameter="", end="low", value=59.3)
calibration_counts(
    [
        {"id": "railonly2025.text.r64_switch_ratio", "verdict": "reproduced"},
        {"id": "railonly2025.text.r64_tiers_rail_only", "verdict": "differs"},
    ]
)
calibrations_of("railonly2025.text.r64_switch_ratio")
evidence("railonly2025.fig3.stage_gpus")
evidence_reason("nwktimes2025.fig14_1.scale_up_delay")
matching_ids("flops2024.scaling.params", "data/calibrations.csv, training time of flops2024")
moving_inputs("railonly2025.fig5.rail_bisection")
solved_texts("railonly2025.fig5.rail_bisection")
strongest({"stated"})
MarkdownText("**0 of 0 claims are reproduced.**\n\n<details><summary>0 reproduced</summary>\n\nnone\n\n</details>\n")
csv_text(("name", "parameter", "value", "low", "high", "unit", "kind", "source", "as_of", "note"), [])
markdown_table([])
markdown_words("")
convert(4.0, "B")
counted(2, "places")
dimension_of(5)
distinct([-0.4, -0.4, -0.4])
number(1.5, 6)
parse("2 h")
show(0.375)
significant(8e-12)
unit("kW")
known_name("notebook", "01", ["01_network_cost", "02_topologies"])
variant_row(ITEM, "hb_bandwidth", "flops2024")
family_list("gpus")
template_text(template("gpus", "B400"))
verdict_counts(LEDGER)
evidence_counts(LEDGER)
basis_counts(LEDGER)
great_circle_distance(40.0, -75.0, 41.0, -80.0)
unit_vectors(np.array([40.0, 41.0]), np.array([-75.0, -80.0]))
degrees_of(unit_vectors(np.array([40.0, 41.0]), np.array([-75.0, -80.0])))
chord_length(75000.0)
chord_distance(0.01)
great_circle_way((40.0, -75.0), (41.0, -80.0))
known_claim(CLAIM)
frame_csv(TABLE, "%.3g")
aligned_table([{"network": "rail-only", "cost": "3"}])
readable(TABLE, 4)
unique_places({"a": np.array([1, 1, 2])}, ["a"])
unique_rows({"a": np.array([1, 1, 2])}, ["a"])
either(["a", "b"])
words("hb_domain_size")
label("hb_domain_size")
