"""What plans and their models give of published clusters, beside what is published."""

import pandas as pd

from railcore.catalog import files
from railcore.catalog.tables import read_csv

MISS = 0.25  # error from which a check is a miss


def checks_table() -> pd.DataFrame:
    """Stored checks (data/derived/plan_checks.csv) beside data/measured/cluster_checks.csv, a row each.

    Columns id, what, subject, published, unit, ours, error (over the nearest end of what is published; 0 within it),
    miss (whether that is a quarter or more), remark, source.
    """
    published = {row["id"]: row for row in read_csv(files.data("measured/cluster_checks.csv"))}
    rows = []
    for check in read_csv(files.data("derived/plan_checks.csv")):
        row, ours = published[check["id"]], float(check["ours"])
        value = float(row["value"])
        low, high = (float(row[end]) if row[end] else value for end in ("low", "high"))
        error = ours / min(max(ours, low), high) - 1  # over the nearest published value
        texts = {column: row[column] for column in ("what", "subject", "unit", "source")}
        numbers = {"published": value, "ours": ours, "error": error, "miss": abs(error) >= MISS}
        rows.append({"id": check["id"], **texts, **numbers, "remark": check["remark"]})
    return pd.DataFrame(rows)["id what subject published unit ours error miss remark source".split()]
