"""Makes siting_real_plants.csv from an inventory of plants that this project does not contain.

    RAILCORE_EIA_DIR=FOLDER python data/measured/siting_real_plants.py

FOLDER has plants.csv.gz: EIA-860M of May 2023 and EIA-860 of 2019, by plant and fuel, as `siting.plants` reads it.
"""

import os
from pathlib import Path

import pandas as pd

from railcore.catalog import files
from railcore.catalog.units import km
from railcore.siting import load_grid, plants, points_by_radius
from suite.flops2024.nodes import METHODS, power_nodes
from suite.flops2024.siting_claims import siting_account
from suite.flops2024.specification import document_size

SOURCE = (
    "EIA-860M of May 2023 and EIA-860 of 2019 (US public domain), by plant and fuel, units of at most the largest size "
    "of each fuel, storage left out; lines and loads of the embedded grid"
)
RADIUS_M, POINT_RADIUS_M, ANCHORS_M = 100 * km, 5 * km, 150 * km  # as in notebook 12's parameters, and so are
ASKED = {"step_deg": 0.25, "oil": True, "coal_basis": "capacity", "most_coal": 0.5, "reserve": "unit"}


def table(folder: Path) -> pd.DataFrame:
    """The stored table."""
    embedded = load_grid()
    real = embedded.with_plants(plants(folder / "plants.csv.gz"))
    demand_w = float(document_size(document="flops2024").total_w.min())
    point, near = points_by_radius(real, [POINT_RADIUS_M, RADIUS_M], [True])
    groups = [power_nodes(real, RADIUS_M, method) for method in METHODS]
    account = siting_account(point, near, groups, demand_w, ANCHORS_M)
    account.insert(0, "plants", "EIA-860M of May 2023")
    where = {"grid": embedded.name, "radius_m": RADIUS_M, "point_radius_m": POINT_RADIUS_M, "anchors_m": ANCHORS_M}
    return account.assign(source=SOURCE, as_of="2023-05", **where, **ASKED)


if __name__ == "__main__":
    made = table(Path(os.environ["RAILCORE_EIA_DIR"]))
    path = files.DATA / "measured" / "siting_real_plants.csv"
    made.to_csv(path, index=False, lineterminator="\n", float_format="%.10g")
