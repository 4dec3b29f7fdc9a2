"""The error that a modelled iteration time has to expect: that of published runs on the same GPU, or the nearest."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from railcore import catalog
from railcore.catalog import files
from railcore.catalog.checks import one_of
from railcore.training.machine import PRECISIONS, Machine, catalog_machine

SAME_RATE = {"mxfp8": "fp8"}  # with scales of blocks, at the same rate
_GENERATIONS = {"V": "Volta", "A": "Ampere", "H": "Hopper", "B": "Blackwell", "R": "Rubin", "MI": "CDNA"}
_TABLE = "derived/iteration_errors.csv"


class ExpectedError(NamedTuple):
    """Mean absolute error of the runs nearest to a prediction.

    error, largest: mean and largest absolute error, as shares of the measured time.
    runs: how many.
    group: which runs these are, in words; also where none of them is on the same GPU.
    same_gpu: whether some are.
    """

    error: float
    largest: float
    runs: int
    group: str
    same_gpu: bool

    def __str__(self) -> str:
        return f"{self.error:.1%} on average and {self.largest:.1%} at most ({self.group})"


def gpu_generation(gpu: str) -> str:
    """Generation of a GPU by the letters of its name, such as Blackwell for B200 and GB200; else the name itself.

    A G before another letter is NVIDIA's CPU on the same board.
    """
    letters = re.match(r"(?:G(?=[A-Z]))?([A-Z]+)\d", gpu)
    return _GENERATIONS.get(letters[1], gpu) if letters else gpu


def iteration_errors() -> pd.DataFrame:
    """Stored errors of the iteration-time model, a row for each platform, precision, mixture and seen.

    Columns runs, mean_error, mean_absolute_error, largest_error besides; data/README.md has what they mean.
    """
    return pd.read_csv(files.data(_TABLE))


def expected_error(machine: Machine | str, precision: str = "", mixture: bool = False) -> ExpectedError:
    """Error that a modelled iteration time has to expect, from published runs.

    It is that of the first of these groups that has runs: the platform in this precision; the platform in a
    precision of the same rate; the platform; GPUs of the same generation in this precision; the generation; all
    GPUs. Nothing is fitted to these runs, so that those looked at while the model was built count as well.

    Parameters
    ----------
    machine
        A `Machine`, or the name of a platform in the catalog.
    precision
        Number format of the linear layers; by default the machine's, bf16 for a name.
    mixture
        Whether the model has experts: dense models and mixtures are never mixed.

    Returns
    -------
    Mean and largest error [share of the published time], the number of runs, and the group that they are of.

    Raises
    ------
    ValueError
        For another precision; UnknownName for a platform, and for a precision that its GPU lacks.

    Examples
    --------
    >>> import railcore as rc
    >>> error = rc.expected_error("DGX H100", "bf16")
    >>> error.same_gpu, 0 < error.error < error.largest
    (True, True)
    """
    platform, default = (machine, "bf16") if isinstance(machine, str) else (machine.platform, machine.precision)
    precision = one_of("precision", precision or default, PRECISIONS)
    # A machine that was given field by field is of no platform.
    gpu = catalog_machine(platform, precision).gpu if platform or isinstance(machine, str) else machine.gpu
    generation = gpu_generation(gpu)
    table = iteration_errors()
    table = table[table["mixture"] == ("experts" if mixture else "dense")]
    table = table.assign(gpu=[str(catalog.item("platforms", name)["gpu"]) for name in table["platform"]])
    for place, part in _nearest(table, platform, precision, generation):
        if not part.empty:
            runs, family = int(part["runs"].sum()), "mixtures of experts" if mixture else "dense models"
            error = float((part["mean_absolute_error"] * part["runs"]).sum() / runs)
            same_gpu = gpu in set(part["gpu"])
            words = f"{runs} run{'s' * (runs > 1)} of {family} {place}{'' if same_gpu else f', none of them on {gpu}'}"
            return ExpectedError(error, float(part["largest_error"].max()), runs, words, same_gpu)
    raise ValueError(f"data/{_TABLE} has no runs of {'mixtures' if mixture else 'dense models'}: restore it from git")


def _nearest(table: pd.DataFrame, platform: str, precision: str, generation: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Groups of runs with their names in words, the nearest first."""
    alike = table["precision"].replace(SAME_RATE) == SAME_RATE.get(precision, precision)
    here, related = table["platform"] == platform, table["gpu"].map(gpu_generation) == generation
    yield f"in {precision} on {platform}", table[here & (table["precision"] == precision)]
    yield f"in {SAME_RATE.get(precision, precision)} of any scales on {platform}", table[here & alike]
    yield f"in any precision on {platform}", table[here]
    yield f"in {precision} on {generation}", table[related & alike]
    yield f"in any precision on {generation}", table[related]
    yield "on any GPU", table
