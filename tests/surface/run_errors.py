"""Good calls of what is public in railcore.engines.run_errors."""

from railcore.engines.run_errors import mechanism_effects
from railcore.engines.validation import published_runs

mechanism_effects(published_runs())
