"""A part of a stored sweep: a Parquet file that proves what it is, by a hash over all of its bytes."""

import hashlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import pandas as pd

_KEY = "railcore"  # in the file's metadata
_MOST_BYTES = 10**9  # some thousand times a part
_MARK, _BLANK = b'"sha256": "', b"0" * 64  # the hash is taken with zeros in its own place


class StoredPart(NamedTuple):
    """What one chunk of a sweep gave. failed: why points could not be planned, by point."""

    number: int
    failed: dict[int, str]
    content: bytes

    def rows(self) -> pd.DataFrame:
        """Rows of the other points."""
        return pd.read_parquet(io.BytesIO(self.content))


def part_name(number: int) -> str:
    """Name of the file of a chunk."""
    return f"part-{number:05}.parquet"


def part_content(sweep: str, number: int, rows: pd.DataFrame, failed: dict[int, str]) -> bytes:
    """Bytes of the file of a part.

    Parameters
    ----------
    sweep
        Hash of the sweep.
    number
        Of the chunk.
    rows
        Of its points.
    failed
        Why its other points could not be planned.

    Returns
    -------
    A Parquet file, whose metadata hold the sweep, the chunk, the failed points and the hash.
    """
    import pyarrow as pa
    from pyarrow import parquet

    proof = {"sweep": sweep, "chunk": number, "failed": failed, "sha256": _BLANK.decode()}
    table, stream = pa.Table.from_pandas(rows, preserve_index=False), io.BytesIO()
    with parquet.ParquetWriter(stream, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_KEY: json.dumps(proof)})
    before, after, sha256 = _hashed(stream.getvalue())
    return before + sha256 + after


def read_part(path: Path, sweep: str) -> StoredPart:
    """A part of a sweep, after it has proved itself. sweep: hash of the sweep.

    Raises ValueError that says what the file is instead: nothing of it is read then.
    """
    from pyarrow import parquet

    try:
        if not path.is_file():
            raise ValueError(f"{path.name} is no file")
        content = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read ({error.strerror})") from None
    before, after, sha256 = _hashed(content)
    if content != before + sha256 + after:
        raise ValueError(f"{path.name} is not as railcore wrote it")
    try:
        proof = json.loads(parquet.read_metadata(io.BytesIO(content)).metadata[_KEY.encode()])
        of_sweep, number = proof["sweep"], int(proof["chunk"])
        failed, name = {int(point): reason for point, reason in proof["failed"].items()}, part_name(number)
    except (ValueError, LookupError, TypeError, AttributeError, OSError, RuntimeError):  # junk with a hash of its own
        raise ValueError(f"{path.name} is not as railcore wrote it") from None
    if of_sweep != sweep:
        raise ValueError(f"{path.name} is of another sweep")
    if path.name != name:
        raise ValueError(f"{path.name} is a copy of {name}")
    return StoredPart(number, failed, content)


def _hashed(content: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before and after the hash in a file, and the hash that belongs there."""
    at = content.rfind(_MARK) + len(_MARK)
    before, after = content[:at], content[at + len(_BLANK) :]
    return before, after, hashlib.sha256(before + _BLANK + after).hexdigest().encode()
