"""Cases of product_laws.csv: the law of products solved from the public table, by GPU and precision."""

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from railcore.catalog import files
from railcore.training.machine import machine_of_gpu
from railcore.training.measured_products import TABLE_FORMATS, ProductLaw, measured_product_times

CODE = ("railcore",)
ROWS = 1  # of a case
Case = tuple[str, str]  # GPU, precision
TABLE = pd.read_csv(files.data("measured/products_public.csv"))
GROUPS: dict[Case, pd.DataFrame] = dict(iter(TABLE.groupby(["gpu", "precision"])))  # type: ignore[arg-type]
LOOSE = 0.05  # error from which a row counts less: rows differ by so much from one measurement to the next
STARTS = ((0.8, 0.75, 1e-4), (0.7, 0.5, 5e-4), (0.6, 0.58, 2e-5))  # of full_clock, sustained and spare_s
HELD = 1e-3  # weight of a parameter's logarithm beside errors, so that one which no row needs stays where it started
DIGITS = 3
OF_MACHINE = ("linear_rate", "bf16_rate", "processors", "memory_Bps", "memory_fraction", "whole_waves")


def cases() -> list[Case]:
    """All GPUs and precisions of the table."""
    return list(GROUPS)


def size(case: Case) -> int:
    """Rows of the table."""
    return len(GROUPS[case])


def key(case: Case) -> tuple:
    """What the row of a case is computed from, but the code."""
    values = machine_of_gpu(case[0], TABLE_FORMATS[case[1]]).values
    return case, [values[name] for name in OF_MACHINE], GROUPS[case].to_csv(index=False)


def solved(case: Case, rows: pd.DataFrame) -> ProductLaw:
    """The law with the least errors on rows, those beyond LOOSE counted by their size and not by its square."""
    machine, precision = machine_of_gpu(case[0], TABLE_FORMATS[case[1]]), case[1]
    guesses = [(*start, 3e12, 3e-6) for start in STARTS]
    if precision != "bfloat16":
        guesses = [(*guess, 1e12, 3e-9) for guess in guesses]
    if precision == "fp8_block":
        guesses = [(*guess, 1e-4) for guess in guesses]

    def law(logarithms: np.ndarray) -> ProductLaw:
        full, sustained, *others = np.exp(np.clip(logarithms, -60, 60))
        return ProductLaw(full, min(sustained, full), *others)

    def errors(logarithms: np.ndarray) -> np.ndarray:
        times = measured_product_times(machine, law(logarithms), rows["m"], rows["n"], rows["k"])
        return np.append(np.log(times / rows["seconds"].to_numpy()), HELD * (logarithms - np.log(guesses[0])))

    bounds = -60, [0, 0, *[60] * (len(guesses[0]) - 2)]
    fits = [least_squares(errors, np.log(guess), bounds=bounds, loss="soft_l1", f_scale=LOOSE) for guess in guesses]
    best = law(min(fits, key=lambda fit: fit.cost).x)
    return ProductLaw(*(float(f"{value:.{DIGITS}g}") for value in best))


def mean_error(case: Case, law: ProductLaw, rows: pd.DataFrame) -> float:
    """Mean absolute error of a law on rows."""
    machine = machine_of_gpu(case[0], TABLE_FORMATS[case[1]])
    times = measured_product_times(machine, law, rows["m"], rows["n"], rows["k"])
    return float(np.abs(times / rows["seconds"] - 1).mean())


def run(case: Case) -> pd.DataFrame:
    """The row of one case: the law, its mean error on all rows, and that of each half by the law of the other half."""
    rows = GROUPS[case]
    halves = rows[::2], rows[1::2]
    law = solved(case, rows)
    left_out = [mean_error(case, solved(case, one), other) for one, other in (halves, halves[::-1])]
    errors = {"rows": len(rows), "mean_error": mean_error(case, law, rows), "left_out_error": float(np.mean(left_out))}
    return pd.DataFrame([{"gpu": case[0], "precision": case[1], **law._asdict(), **errors}])


def named(case: Case) -> str:
    """A case in a line."""
    return f"{case[0]} in {case[1]}: {size(case)} products"
