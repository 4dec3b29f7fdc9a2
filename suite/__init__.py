"""What the notebooks are made with: results to files, pictures, widgets, and the driver that runs them."""

from importlib.util import find_spec

_NEEDED = ("ipywidgets", "jinja2", "matplotlib", "papermill", "seaborn")

if _missing := [name for name in _NEEDED if find_spec(name) is None]:
    raise ImportError(f"suite needs {', '.join(_missing)}: run make figures, or pip install --group suite -e .")
