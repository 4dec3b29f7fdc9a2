"""Kernels that nbval starts get the same environment as the driver's."""

import os

from railcore.workbench.driver import kernel_environment

os.environ.update(kernel_environment())
for name in ("PYTHONDONTWRITEBYTECODE", "MATPLOTLIBRC", "MPLBACKEND", "PYTHONSTARTUP", "RAILCORE_CATALOG"):
    os.environ.pop(name, None)
