"""Tables as people read them, where one unit for a whole column serves better than a unit in each cell."""

import pandas as pd

from railcore.facts import units


def in_gigabytes(table: pd.DataFrame) -> pd.DataFrame:
    """A table to show, its columns of bytes as "... [GB]", names in one line."""
    named = {name: f"{name.removesuffix('bytes').rstrip('_') or 'in all'} [GB]" for name in table}
    columns = {name: label for name, label in named.items() if name.endswith("bytes") and not name.startswith("share")}
    sizes = {name: table[name] / units.GB for name in columns}
    return table.assign(**sizes).rename(columns=columns).replace("\n", ", ", regex=True)


def in_megawatts(table: pd.DataFrame) -> pd.DataFrame:
    """A table of balancing authorities to show: its first three columns, then the others, powers in MW.

    Columns authority, printed_w, region and any others.
    """
    printed = {"authority": "Balancing Authority", "printed_w": "Max Available (MW)", "region": "Region"}
    ours = {name: f"{units.words(name.removesuffix('_w'))}{' (MW)' * name.endswith('_w')}" for name in table}
    powers = {name: table[name] / units.MW for name in table if name.endswith("_w")}
    names = ours | printed
    return table.assign(**powers)[[*printed, *(name for name in table if name not in printed)]].rename(columns=names)
