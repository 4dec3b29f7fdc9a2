"""Execute the notebooks that changed, side by side, and publish what they made: figures, ledger, notebooks."""

from suite.driver.kernels import kernel_environment
from suite.driver.run import make_figures
