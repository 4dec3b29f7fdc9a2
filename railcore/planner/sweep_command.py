"""What `railcore sweep` does: sweeps a spec, shows how far it is, and prints the result."""

import sys

from railcore.catalog.units import counted
from railcore.planner.progress import ProgressLine
from railcore.planner.sweep_dask import SchedulerLost
from railcore.planner.sweeping import sweep

SOME_FAILED = 3  # exit status where some of the points could not be planned
LOST = 4  # exit status where the Dask scheduler ended in the middle

TEMPLATE = """\
# A sweep: a spec as of `railcore plan --init`, and the values that are tried.
[cluster]
platform = "DGX H100"
[job]
model = "Llama-3 405B"
[books.prices]
port = "600 USD"
rate = "400 Gbps"

[over]  # every combination; or [[over]] with the keys of one point each, or over = "points.csv" above all sections
cluster.gpus = [1024, 4096, 16384]
books.prices.transceiver = {from = "200 USD", to = "1000 USD", steps = 5}  # spacing = "log" for even ratios
"""


def run_sweep(spec: str | None, out: str | None, workers: int, scheduler: str | None, draws: int) -> int:
    """Sweep and print the result. Gives the exit status: 3 where some points failed, 4 where the scheduler was lost.

    Parameters
    ----------
    spec
        A TOML file with a table `over`.
    out
        Folder for the rows.
    workers, scheduler, draws
        As of `sweep`.

    Returns
    -------
    0; 3 where some points failed; 4 where the Dask scheduler ended in the middle; 130 where Ctrl-C did. What is planned
    is kept, and the same command goes on.

    Raises
    ------
    ValueError
        As `sweep`, and for no spec or no folder.
    """
    if not spec or not out:
        raise ValueError("sweep needs a spec and --out FOLDER; `railcore sweep --init` prints a spec to fill in")
    try:
        with ProgressLine() as tell:
            table = sweep(spec, None, out, workers, scheduler, draws, tell)
    except KeyboardInterrupt:
        print(f"railcore: stopped; what is done is in {out}, and the same command goes on", file=sys.stderr)
        return 130
    except SchedulerLost as error:
        print(f"railcore: {error}", file=sys.stderr)
        return LOST
    failed = table.attrs["failed"]
    first = table[table["rank"] == 1]
    for name, count in first.loc[first["strategy"] != "", "candidate"].value_counts().items():
        print(f"{name} is the best of {counted(count, 'points')}")
    if none := int((first["strategy"] == "").sum()):
        print(f"no network runs the job in {counted(none, 'points')}")
    print(f"{counted(len(table), 'rows')} of {counted(table.attrs['points'] - len(failed), 'points')}: {out}/plans")
    if failed:
        print(f"{counted(len(failed), 'points')} failed: {out}/failed.csv says why", file=sys.stderr)
    return SOME_FAILED if failed else 0
