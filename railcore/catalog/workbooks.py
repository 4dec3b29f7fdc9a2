"""How large a workbook becomes: a small file may unpack to one that is read for minutes."""

import zipfile
from contextlib import suppress
from pathlib import Path


def check_unpacked(path: Path, where: str, most: int) -> None:
    """Raises ValueError for a workbook of more than `most` bytes when it is unpacked; what is no workbook passes.

    where: what messages call it.
    """
    with suppress(zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError), zipfile.ZipFile(path) as parts:
        size = sum(part.file_size for part in parts.infolist())
        if size > most:
            raise ValueError(
                f"{where} has {size / 1e6:,.0f} MB when it is unpacked, more than {most / 1e6:,.0f}: give the sheet "
                "that is needed alone"
            )
