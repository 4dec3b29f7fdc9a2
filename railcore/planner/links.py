"""Links of a plan: whether they are Ethernet or InfiniBand, their switch, and the books that price their parts."""

from railcore.network.price_books import PriceBook, book_names, book_of_links, matching_books
from railcore.network.switches import TECHNOLOGIES, switch_model, switch_technology, usual_networks, usual_switch
from railcore.planner.spec import NetworkSpec, PowerSpec, PriceSpec, Spec


def link_technology(network: NetworkSpec) -> str:
    """Technology of the scale-out links: as asked, else of the switch, else that of usual scale-out networks.

    Raises ValueError where the switch has another one than is asked.
    """
    if network.switch is None:
        return network.technology or usual_networks()["scale-out"]["technology"]
    of_switch = switch_technology(network.switch)
    if network.technology not in (None, of_switch):
        raise ValueError(
            f"technology is {network.technology!r}, and switch {network.switch!r} is of {of_switch}: leave one out"
        )
    return of_switch


def link_switch(network: NetworkSpec, rate_Bps: float) -> str:
    """The switch of links of a rate: the spec's, else the usual one of their technology."""
    return network.switch or usual_switch(link_technology(network), rate_Bps)


def switch_ports(network: NetworkSpec, nic_Bps: float, planes: int = 1, switch: str | None = None) -> int:
    """Ports of a switch at a plane's share of the NIC's rate, over planes.

    Parameters
    ----------
    network
        Whose switch it is.
    nic_Bps, planes
        Of a NIC, one direction [bytes/s]; over which its ports are split.
    switch
        Of the catalog, in place of the network's.

    Returns
    -------
    Ports.

    Raises
    ------
    ValueError
        For a rate that the switch lacks.
    """
    model = switch_model(switch or link_switch(network, nic_Bps))
    return model.ports * model.ports_of_interface(nic_Bps / planes) // planes


def link_books(spec: Spec, nic_Bps: float) -> tuple[PriceBook, PriceBook]:
    """Books for links of the NIC's rate. What the spec's own leave out is that of the links' technology."""
    usual = TECHNOLOGIES[link_technology(spec.network)]
    prices, powers = spec.books.prices or usual, spec.books.powers
    bought = prices if isinstance(prices, str) else usual
    drawn = powers if isinstance(powers, str) else bought if bought in book_names("powers") else usual
    of_price, of_power = matching_books(bought, drawn, nic_Bps)
    if isinstance(prices, PriceSpec):
        of_price = _own_book("prices", "USD", prices, bought, nic_Bps)
    if isinstance(powers, PowerSpec):
        of_power = _own_book("powers", "W", powers, drawn, nic_Bps)
    return of_price, of_power


def side_books(spec: Spec) -> dict[str, tuple[PriceBook, PriceBook]]:
    """Books of the networks beside the scale-out one that have other links, by name.

    The management network has its own; where the spec gives no books, the others have those of their technology.
    """
    books = {"management": matching_books("management2025")}
    if spec.books.prices is None and spec.books.powers is None:
        names = {name: usual_networks()[name]["technology"] for name in ("frontend", "storage")}
        books |= {name: matching_books(TECHNOLOGIES[technology]) for name, technology in names.items()}
    return books


def _own_book(family: str, unit: str, spec: PriceSpec | PowerSpec, default: str, nic_Bps: float) -> PriceBook:
    """A book with the spec's numbers. default: name of the book of what they leave out."""
    book = PriceBook(
        **{name: getattr(spec, name) for name in ("port", "transceiver", "dac", "circuit_port")},
        copper_name=default if spec.dac is None else "",
        circuit_name=default if spec.circuit_port is None else "",
        name=f"{spec.name} (of the spec)",
        rate_Bps=spec.rate,
        unit=unit,
    )
    return book_of_links(family, book, nic_Bps)
