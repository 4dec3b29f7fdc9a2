"""Plans over a grid or a table of spec values: on one core, on several, or on a Dask cluster.

It holds no formula: each row is what `plan` gives for the spec of its point.
"""

from railcore.engines.sweep.folder import stored_sweep
from railcore.engines.sweep.sweeping import sweep
