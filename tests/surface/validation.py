"""Good calls of what is public in railcore.engines.validation."""

from railcore.engines.own_runs import own_runs
from railcore.engines.validation import error_summary, predictions, published_runs

error_summary(predictions(published_runs()))
predictions(own_runs(None))
published_runs("fit")
