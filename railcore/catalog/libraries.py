"""Libraries that only a part of railcore needs."""

import importlib


def needed_library(module: str, need: str, extra: str) -> None:
    """Raises ValueError where a library is not installed, or its installation is broken: then with the cause.

    module: that is imported. need: what needs it, such as "a scheduler needs Dask". extra: of railcore, which has it.
    """
    try:
        importlib.import_module(module)
    except Exception as error:  # a broken one raises anything
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise ValueError(f"{need}, which is not installed: pip install 'railcore[{extra}]'") from None
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{need}, whose installation is broken ({cause}): install it anew, or another version"
        ) from None
