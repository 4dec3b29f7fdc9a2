"""Operations on photonic rails: how charts call and colour them."""

from typing import NamedTuple

from suite.plotting import TRAFFIC, paler


class RailOperation(NamedTuple):
    """short: as the authors' trace labels it; traffic: with what it belongs to, for legends."""

    short: str
    name: str
    traffic: str
    colour: str


OPERATIONS = {
    "all_gather": RailOperation("AG", "AllGather", "FSDP AllGather", paler(TRAFFIC["data"], 0.5)),
    "reduce_scatter": RailOperation("RS", "ReduceScatter", "FSDP ReduceScatter", TRAFFIC["data"]),
    "send_receive": RailOperation("PP", "Send/Recv", "PP Send/Recv", TRAFFIC["pipeline"]),
    "all_reduce": RailOperation("AR", "AllReduce", "AllReduce of the optimizer", "#000000"),
    "all_to_all": RailOperation("A2A", "AllToAll", "EP AllToAll", TRAFFIC["expert"]),
}
BY_SHORT = {operation.short: operation for operation in OPERATIONS.values()}
DIMENSIONS = {"tensor": "TP", "data": "FSDP", "pipeline": "PP", "expert": "EP"}
