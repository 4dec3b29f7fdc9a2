"""Max-min fairness by the textbook: all rates grow until a link is full, anew at every event. Solvers must equal it."""

import numpy as np

TIE = 1e-12  # shares that differ by less are equal
DONE = 1e-10  # of a flow's bytes: what is left by rounding


def fair_rates(port, capacity, active=None):
    """Rates of flows; port [flows, uses]: links of each, -1 for none.

    All rates grow together; a link that is full stops those that use it. capacity [links]; active [flows]: True or
    False, by default all.
    """
    flow, at = np.nonzero(np.asarray(port) >= 0)
    port, ports = np.asarray(port)[flow, at], len(capacity)
    growing = np.ones(flow.max() + 1, bool) if active is None else np.array(active, bool)
    rates, left = np.zeros(len(growing)), np.asarray(capacity, float)
    while growing.any():
        load = np.bincount(port, growing[flow], ports)
        share = np.divide(left, load, out=np.full(ports, np.inf), where=load > 0)
        full = share <= share.min() * (1 + TIE)
        stopped = np.zeros_like(growing)
        stopped[flow[full[port] & growing[flow]]] = True
        rates[stopped] = share.min()
        left = np.maximum(0.0, left - np.bincount(port, stopped[flow], ports) * share.min())
        growing &= ~stopped
    return rates


def finish_s(links):
    """When each flow of `SharedLinks` ends, infinite for one that never does."""
    left, now, ends = links.wire_bytes.astype(float), float(links.start_s.min()), np.full(len(links.port), np.inf)
    while True:
        waiting = links.start_s > now
        active = ~waiting & (left > 0)
        rates = fair_rates(links.port, links.capacity_Bps, active)
        lasting = np.divide(left, rates, out=np.full(len(left), np.inf), where=rates > 0)
        end = min(now + lasting.min(), links.start_s[waiting].min(initial=np.inf))
        if not np.isfinite(end):
            return ends
        left = np.where(active, left - rates * (end - now), left)
        ended = active & (left <= DONE * links.wire_bytes)
        left[ended], ends[ended] = 0, end
        now = end
