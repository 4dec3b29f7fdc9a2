"""What a user brings from the US Energy Information Administration: plants, hourly demand and generation, screened."""

from railcore.systems.siting.eia.inventory import plants
from railcore.systems.siting.eia.screening import cleaned, expected, quality, spikes
from railcore.systems.siting.eia.series import balance, hourly

__all__ = ["balance", "cleaned", "expected", "hourly", "plants", "quality", "spikes"]
