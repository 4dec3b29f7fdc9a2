"""Twelve clusters of tests/cases.csv come out as they are stored: see tests/cases.py."""

import pytest
from cases import COLUMNS, COUNTS, NUMBERS, PATH, SHAPES, results, same

from railcore.catalog.tables import read_csv

CASES = read_csv(PATH)
MOVED = "moved: if it is meant, `python tests/cases.py` writes the file again; say what moved and why"


def test_the_cases_have_every_kind_of_fabric_on_three_platforms():
    fabrics = {case["fabric"] for case in CASES}
    others = {"multi-rail segments", "single-rail segments", "photonic rails", "five networks"}
    assert len(CASES) == 12 and list(CASES[0]) == list(COLUMNS)
    assert fabrics == {*SHAPES, *others} and "2" in {case["planes"] for case in CASES}
    assert len({case["platform"] for case in CASES}) == 3


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_case_comes_out_as_stored(case):
    found = results(case)
    moved = [name for name in (*COUNTS, "strategy") if str(found[name]) != case[name]]
    moved += [name for name in NUMBERS if not same(found[name], float(case[name]))]
    assert not moved, f"{', '.join(f'{name} {case[name]} -> {found[name]}' for name in moved)} {MOVED}"
