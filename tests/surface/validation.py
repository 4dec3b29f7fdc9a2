"""Good calls of what is public in railcore.engines.validation."""

from railcore.engines.own_runs import own_runs
from railcore.engines.validation import (
    breakdown_table,
    error_summary,
    predictions,
    published_runs,
    software_times,
    training_duration,
)
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import catalog_model

error_summary(predictions(published_runs()))
predictions(own_runs(None))
published_runs("fit")
training_duration(
    catalog_model("Llama-3 8B"), catalog_machine("DGX H100"), Strategy(tensor=2, pipeline=2, data=2), 8, 1000000000000.0
)
software_times("Llama-3 70B", "DGX H100", Strategy(4, pipeline=2, data=2), 128)
breakdown_table("Llama-3 8B", "DGX H100", "bf16", Strategy(tensor=2, pipeline=2, data=2), 8)
