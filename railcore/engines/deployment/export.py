"""What an engineer takes to the hall: tables as CSV and a configuration for each switch, in a folder."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from railcore.engines.deployment.cables import cabling_table
from railcore.engines.deployment.frr import frr_text
from railcore.engines.deployment.routing import BgpDesign
from railcore.engines.deployment.switch_configs import switch_config
from railcore.facts.arguments import checked
from railcore.facts.files import write_all

_TABLES = ("switches", "port_map", "cabling", "subnets", "summaries", "neighbours")
_MOST_NAMED = 3  # files of others in a message


def check_folder(bgp: BgpDesign, folder: str | Path) -> Path:
    """A folder for a design's files. Raises ValueError for one that is a file or has files of other names."""
    root = Path(folder).expanduser()
    there = next((path for path in (root, *root.parents) if path.exists()), root)
    if there.exists() and not there.is_dir():
        raise ValueError(f"folder is '{folder}', but '{there.name}' is a file: give a new or an empty folder")
    ours = {root / f"{name}.csv" for name in _TABLES}
    ours |= {root / "frr" / f"{name}.conf" for name in bgp.switches["switch"]}
    others = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path not in ours)
    if others:
        shown = ", ".join(others[:_MOST_NAMED]) + ", ..." * (len(others) > _MOST_NAMED)
        raise ValueError(f"folder '{folder}' has other files ({shown}): give a new or an empty folder")
    return root


@checked
def write_deployment(bgp: BgpDesign, folder: str | Path, lengths_m: Mapping = {}, mtu: int = 9216) -> pd.DataFrame:
    """Write a design's tables, and a file of FRRouting for each switch, all of them or none.

    Parameters
    ----------
    bgp
        AS numbers and sessions over an address plan.
    folder
        That is new, empty, or holds files of these names alone, which are replaced.
    lengths_m
        Of cables, as in `cabling_table`, for their media.
    mtu
        Of the interfaces [bytes].

    Returns
    -------
    Columns file and lines: switches.csv, port_map.csv, cabling.csv, subnets.csv, summaries.csv, neighbours.csv, and
    frr/<switch>.conf.

    Raises
    ------
    ValueError
        A folder with other files, or a design that cannot be exported; nothing is written then.
    """
    root, plan = check_folder(bgp, folder), bgp.plan
    cables = cabling_table(plan, lengths_m)
    frames = (bgp.switches, plan.ports, cables, plan.subnets, plan.summaries, bgp.neighbours)
    contents: dict[Path, str | bytes | None] = {}
    for name, frame in zip(_TABLES, frames, strict=True):
        contents[root / f"{name}.csv"] = frame.to_csv(index=False, lineterminator="\n", float_format="%.10g")
    for name in bgp.switches["switch"]:
        contents[root / "frr" / f"{name}.conf"] = frr_text(switch_config(bgp, name, mtu))
    write_all(contents)
    rows = [(path.relative_to(root).as_posix(), str(text).count("\n")) for path, text in contents.items()]
    return pd.DataFrame(rows, columns=["file", "lines"])
