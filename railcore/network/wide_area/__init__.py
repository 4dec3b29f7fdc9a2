"""The wide area between datacenters: delay, one TCP flow under loss, bit errors, tails, admission and priority."""

from railcore.network.wide_area.admission import allocation
from railcore.network.wide_area.bit_errors import ReedSolomon, bit_error_rate, code, packet_loss
from railcore.network.wide_area.priority import priority_waits, shared_wait
from railcore.network.wide_area.routes import (
    Route,
    fibre_route,
    great_circle_distance,
    one_way_delay,
)
from railcore.network.wide_area.tables import flow_needs, link_losses, policies, queue_waits, tails, throughputs
from railcore.network.wide_area.tcp import (
    LAWS,
    cubic_window,
    flows_needed,
    mathis_window,
    recovery_time,
    start_rounds,
    tcp_throughput,
    tolerable_loss,
)
from railcore.network.wide_area.transfers import any_loss, loss_for, repair_packets, sending_rounds
