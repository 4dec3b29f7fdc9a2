"""Execute the notebooks that changed, side by side, and publish what they made: figures, ledger, notebooks."""

from railcore.workbench.driver.kernels import kernel_environment
from railcore.workbench.driver.run import make_figures
