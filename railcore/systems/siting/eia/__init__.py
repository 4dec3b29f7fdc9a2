"""What a user brings from the US Energy Information Administration: plants, hourly demand and generation, screened."""

from railcore.systems.siting.eia.inventory import plants
from railcore.systems.siting.eia.screening import expected_hours, quality, screened, spikes
from railcore.systems.siting.eia.series import balance_series, parquet_series

__all__ = ["balance_series", "expected_hours", "parquet_series", "plants", "quality", "screened", "spikes"]
