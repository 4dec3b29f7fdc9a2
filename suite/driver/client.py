"""The client of one notebook's kernel: what the cells show, joined in linear time, and bounded."""

import logging

from nbclient.exceptions import CellExecutionComplete
from papermill import engines
from papermill.clientwrap import PapermillNotebookClient

MOST_SHOWN = 10_000_000  # characters that a notebook sends; the largest of the suite has 2 million
_OF_MESSAGE = 500  # characters that a message counts for beside its own: each takes time
_START_S, _CELL_S = 120, 900


class TooMuchShown(Exception):
    """A cell with which a notebook sends more than `MOST_SHOWN`; the message names it."""


def joined(shown: list) -> list:
    """Outputs of a cell, the texts of each stream together where it begins, as nbclient would have them.

    What a carriage return overwrites goes. nbclient looks for it in a time that grows with the square of a line.
    """
    streams: dict[str, list[str]] = {}
    kept: list = []
    for output in shown:
        name = output["name"] if output["output_type"] == "stream" else ""
        if not name or name not in streams:
            kept.append(output)
        if name:
            streams.setdefault(name, []).append(output["text"])
    for output in kept:
        if output["output_type"] == "stream":
            lines = "".join(streams[output["name"]]).split("\n")
            output["text"] = "\n".join(line[line.rfind("\r", 0, -1) + 1 :] for line in lines)
    for at in range(len(kept) - 1):  # their order is by chance
        if [output.get("name") for output in kept[at : at + 2]] == ["stderr", "stdout"]:
            kept[at : at + 2] = kept[at + 1], kept[at]
    return kept


def _length(value) -> int:
    """Characters of all texts in a message."""
    if isinstance(value, dict):
        return sum(map(_length, value.values()))
    return len(value) if isinstance(value, str) else sum(map(_length, value)) if isinstance(value, list) else 0


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    shown = 0

    def process_message(self, message, cell, cell_index):
        self.shown += _OF_MESSAGE + _length(message["content"])
        if self.shown > MOST_SHOWN:  # an error here would wait until the cell ends, which it may never do
            self.task_poll_for_reply.cancel()
            raise CellExecutionComplete
        return super().process_message(message, cell, cell_index)

    def execute_cell(self, cell, cell_index):
        try:
            return super().execute_cell(cell, cell_index)
        finally:
            if self.shown > MOST_SHOWN:
                first = cell.source.strip().partition("\n")[0]
                raise TooMuchShown(
                    f"cell {cell_index} ({first}): with it the notebook prints more than {MOST_SHOWN // 1_000_000} MB, "
                    f"or more than {MOST_SHOWN // _OF_MESSAGE:,} times: print less, or save numbers with outputs.save"
                )
            if "outputs" in cell:
                cell.outputs = joined(cell.outputs)


class _Engine(engines.Engine):  # type: ignore[misc]
    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, *, km, **_):
        log = logging.getLogger("papermill")
        limits = {"timeout": _CELL_S, "startup_timeout": _START_S}
        _Client(nb_man, km=km, kernel_name=kernel_name, log=log, record_timing=False, **limits).execute()


ENGINE = "railcore"
engines.papermill_engines.register(ENGINE, _Engine)
