"""The error that a prediction has to expect: the nearest group of published runs that there is."""

import pandas as pd
import pytest

from railcore import catalog
from railcore.training import prediction_error as module
from railcore.training.machine import catalog_machine
from railcore.training.prediction_error import expected_error, gpu_generation

COLUMNS = "platform precision mixture seen runs mean_error mean_absolute_error largest_error".split()
TABLE = [
    ("DGX H100", "bf16", "dense", "looked at", 4, 0, 0.01, 0.02),
    ("DGX H100", "bf16", "dense", "kept aside", 1, 0, 0.02, 0.02),
    ("DGX H100", "bf16", "dense", "kept aside", 3, 0, 0.06, 0.09),
    ("DGX H100", "fp8", "dense", "looked at", 2, 0, 0.03, 0.04),
    ("DGX B200", "mxfp8", "dense", "kept aside", 1, 0, 0.10, 0.10),
    ("GB200 NVL72", "fp8", "dense", "kept aside", 1, 0, 0.20, 0.20),
    ("GB200 NVL72", "bf16", "experts", "kept aside", 1, 0, 0.30, 0.30),
]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "iteration_errors", lambda: pd.DataFrame(TABLE, columns=COLUMNS))


@pytest.mark.parametrize(
    ("platform", "precision", "error", "group"),
    [
        ("DGX H100", "bf16", 0.03, "8 runs of dense models in bf16 on DGX H100"),
        ("DGX H100", "fp8", 0.03, "2 runs of dense models in fp8 on DGX H100"),
        ("DGX B200", "fp8", 0.10, "1 run of dense models in fp8 of any scales on DGX B200"),
        ("DGX B200", "bf16", 0.10, "1 run of dense models in any precision on DGX B200"),
        ("GB300 NVL72", "fp8", 0.15, "2 runs of dense models in fp8 on Blackwell"),
        ("GB300 NVL72", "bf16", 0.15, "2 runs of dense models in any precision on Blackwell"),
        ("DGX H200", "bf16", 0.03, "8 runs of dense models in bf16 on Hopper"),
        ("DGX A100", "bf16", 0.6 / 12, "12 runs of dense models on any GPU"),
    ],
)
def test_the_nearest_group_with_runs_is_taken(small, platform, precision, error, group):
    found = expected_error(platform, precision)
    assert found.error == pytest.approx(error) and found.group.startswith(group)
    assert found.runs == int(group.split()[0]) and found.error <= found.largest


def test_mixtures_are_never_taken_for_dense_models(small):
    for platform in ("DGX H100", "DGX B200", "GB200 NVL72"):
        found = expected_error(platform, "bf16", mixture=True)
        assert (found.error, found.runs) == (0.30, 1) and "1 run of mixtures of experts" in found.group


def test_a_machine_says_its_platform_and_precision(small):
    assert expected_error(catalog_machine("DGX H100", "fp8")) == expected_error("DGX H100", "fp8")
    assert expected_error("DGX H100") == expected_error("DGX H100", "bf16")


def test_every_platform_of_the_catalog_has_an_expected_error():
    gpus = catalog.names("efficiencies")
    for platform in catalog.names("platforms"):
        if str(catalog.item("platforms", platform).get("gpu", "")) in gpus:
            for mixture in (False, True):
                found = expected_error(platform, "bf16", mixture)
                assert 0 < found.error <= found.largest and found.runs > 0


def test_generations_are_read_from_names():
    names = {"V100": "Volta", "A100": "Ampere", "H20": "Hopper", "GH200": "Hopper", "GB300": "Blackwell"}
    assert {name: gpu_generation(name) for name in names} == names
    assert gpu_generation("MI300X") == "CDNA" and gpu_generation("TPU v5p") == "TPU v5p"


def test_a_machine_of_no_platform_is_taken_by_its_gpu(small):
    own = catalog_machine("GB300 NVL72", "fp8").changed(platform="")
    assert expected_error(own) == expected_error("GB300 NVL72", "fp8")
    assert expected_error(own.changed(gpu="mine")).group.endswith("dense models on any GPU, none of them on mine")
