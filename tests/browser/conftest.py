"""The browser tests run only where their folder is named, as `make test-browser` does; `pytest tests` skips them."""

from pathlib import Path

HERE = Path(__file__).resolve().parent


def pytest_ignore_collect(collection_path, config):
    start = Path(config.invocation_params.dir)
    named = [(start / argument.split("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(HERE) for path in named) else True
