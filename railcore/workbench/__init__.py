"""What the notebooks are made with: results to files, pictures, widgets, and the driver that runs them."""
