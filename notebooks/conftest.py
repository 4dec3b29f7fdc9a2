"""Kernels that nbval starts get the same environment as the driver's."""

import os

from suite.driver.kernels import DROPPED_VARIABLES, kernel_environment

os.environ.update(kernel_environment())
for name in (*DROPPED_VARIABLES, "RAILCORE_CATALOG", "RAILCORE_NOTEBOOK"):
    os.environ.pop(name, None)
