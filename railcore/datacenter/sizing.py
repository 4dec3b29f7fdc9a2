"""What a budget buys and a power feeds: racks, GPUs, FLOP/s, memory; and the machine as a layer sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import compress
from typing import Annotated, Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import checks, variant_row
from railcore.catalog.arguments import (
    CountArray,
    DollarsArray,
    NonNegativeArray,
    PositiveBandwidthArray,
    PositiveBytesArray,
    PositiveFlopRateArray,
    Quantities,
    Range,
    SecondsArray,
    WattsArray,
    checked,
)
from railcore.catalog.tables import readable
from railcore.catalog.units import show
from railcore.datacenter.rack_network import NetworkOfRacks, most_that_fit, rack_network
from railcore.network.price_books import DEFAULT_BOOK

_NUMBER_FORMATS = ("fp4", "fp8", "bf16")
_MOST_RACKS = 1e12  # up to which a network is counted in whole parts
_DEFAULT_PLATFORM = "GB200 NVL72"
_ROUNDING = 1 + 1e-12  # of a limit
_Price = Annotated[Quantities, Range(0, above_0=True, example="10 B USD")]
_Power = Annotated[Quantities, Range(0, above_0=True, example="1.2 GW")]


@checked
@dataclass(frozen=True)
class Sizing:
    """What limits a datacenter, and what racks cost, draw and compute. Any field may be an array; all broadcast.

    At least one limit is set, the others are None: budget_usd, power_w, most_gpus, most_racks.

    budget_usd: of the whole datacenter [USD].
    rack_usd: price of a rack or server [USD].
    rack_w: power of a rack at full load [W].
    rack_gpus: GPUs of a rack.
    gpu_dense_flops, gpu_sparse_flops: peak of a GPU without and with 2:4 sparsity [FLOP/s]; NaN where unknown.
    gpu_memory_bytes: of a GPU.
    compute_share, network_share: of the budget, for racks and for the network.
    other_power_share: power of all else but `network`, such as storage, over that of the racks.
    pue: power usage effectiveness: facility power over IT power.
    network: the scale-out network, counted part by part; racks and network together get both shares of the budget.
        None for the rule of thumb: network_share of the budget.
    power_w: most that the facility may draw, PUE x IT [W].
    most_gpus, most_racks: limits by count.
    price_book: of the shares of the budget; "" where these are the caller's numbers.
    rate_format: number format of the peaks; "" where these are the caller's numbers.
    binding: the limit that leaves the fewest whole racks: "budget", "power", "gpus" or "racks", or several joined by
        " and ".

    Raises ValueError without a limit, for a limit too small for one rack (it says what a rack needs), and for shares
    that sum to more than 1.
    """

    budget_usd: DollarsArray | None
    rack_usd: _Price
    rack_w: _Power
    rack_gpus: Annotated[Quantities, Range(0, above_0=True)]
    gpu_dense_flops: PositiveFlopRateArray
    gpu_memory_bytes: PositiveBytesArray
    gpu_sparse_flops: Annotated[Any, Range(0, example="1 PFLOP/s")] = np.nan  # a NaN is read, too
    compute_share: Annotated[Quantities, Range(0, 1, above_0=True)] = 1.0
    network_share: Annotated[Quantities, Range(0, 1)] = 0.0
    other_power_share: Annotated[Quantities, Range(0)] = 0.0
    pue: Annotated[Quantities, Range(1)] = 1.0
    network: NetworkOfRacks | None = field(default=None, repr=False)
    power_w: WattsArray | None = None
    most_gpus: Any = None
    most_racks: Any = None
    price_book: str = ""
    rate_format: str = ""
    binding: Any = field(init=False)

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in ("budget_usd", "power_w", "most_gpus", "most_racks")):
            raise ValueError(
                "budget_usd, power_w, gpus and racks are None: give one of them, such as '1 B USD', '1 GW' or 9216 GPUs"
            )
        for name in ("most_gpus", "most_racks"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name))
        if np.any(np.asarray(self.compute_share) + np.asarray(self.network_share) > _ROUNDING):
            raise ValueError(f"network_share is {self.network_share!r}: with compute_share it is more than the budget")
        most = self._most_racks
        if np.any(most["budget"] < 1):
            least = float(np.max(np.asarray(self.rack_usd) / self._racks_share))
            raise ValueError(
                f"budget_usd is {self.budget_usd!r}, which buys no rack: give at least {least:,.0f} USD for one"
            )
        if np.any(most["power"] < 1):
            needed = show(float(np.max(self._rack_total_w)), "W")
            raise ValueError(f"power_w is {self.power_w!r}, which feeds no rack: give at least {needed} for one")
        if np.any(most["gpus"] < 1):
            of_rack = float(np.max(self.rack_gpus))
            raise ValueError(f"gpus is {self.most_gpus!r}, which fills no rack: give rack_gpus, {of_rack:,.0f}")
        binds = np.stack(np.broadcast_arrays(*(racks == self.racks for racks in most.values())), axis=-1)
        texts = [" and ".join(compress(most, row)) for row in binds.reshape(-1, len(most))]
        binding = np.reshape(texts, binds.shape[:-1])
        object.__setattr__(self, "binding", binding if binding.ndim else binding.item())

    @property
    def _rack_total_w(self) -> Any:
        """Power of the facility for each rack, without `network` [W]."""
        return np.asarray(self.rack_w) * (1 + np.asarray(self.other_power_share)) * np.asarray(self.pue)

    @property
    def _racks_share(self) -> Any:
        """Share of the budget for racks, and for `network` where it is counted."""
        return np.asarray(self.compute_share) + (0 if self.network is None else np.asarray(self.network_share))

    @cached_property
    def _most_racks(self) -> dict[str, Any]:
        """Whole racks that each limit leaves, infinite without the limit."""
        limits: dict[str, tuple[Any, Any]] = {  # limit, and what a rack takes of it
            "budget": (self.budget_usd, np.asarray(self.rack_usd) / self._racks_share),
            "power": (self.power_w, self._rack_total_w),
            "gpus": (self.most_gpus, self.rack_gpus),
            "racks": (self.most_racks, 1),
        }
        most = {
            name: np.inf if limit is None else np.floor(np.asarray(limit) / rack * _ROUNDING)
            for name, (limit, rack) in limits.items()
        }
        if self.network is None:
            return most
        shared = (  # limits of racks and network together
            ("budget", "budget_usd", self.network.price_usd, self._racks_share),
            ("power", "power_w", self.network.power_w, 1 / np.asarray(self.pue)),
        )
        for name, argument, of_network, share in shared:
            limit, rack = limits[name]
            if limit is None:
                continue
            if np.any(most[name] > _MOST_RACKS):
                raise ValueError(f"{argument} is {limit!r}, more than {_MOST_RACKS:.0e} racks: give less")
            most[name] = most_that_fit(partial(_fit_with_network, limit, rack, of_network, share), most[name])
        return most

    @property
    def racks(self) -> Any:
        """Whole racks, the most within every limit: power, GPUs, racks, and the budget.

        Racks and `network` together get both shares of the budget; by the rule of thumb racks get compute_share of it.
        """
        return np.minimum.reduce(np.broadcast_arrays(*self._most_racks.values()))

    @property
    def gpus(self) -> Any:
        """GPUs of all racks."""
        return self.racks * self.rack_gpus

    @property
    def racks_w(self) -> Any:
        """Power of the racks [W]."""
        return self.racks * self.rack_w

    @cached_property
    def network_w(self) -> Any:
        """Power of `network` [W]. NaN by the rule of thumb, which has it in other_power_share."""
        return np.nan if self.network is None else self.network.power_w(self.racks)

    @property
    def it_w(self) -> Any:
        """Power of all IT equipment [W]: racks x (1 + other_power_share) + network."""
        racks_w = self.racks_w * (1 + np.asarray(self.other_power_share))
        return racks_w if self.network is None else racks_w + self.network_w

    @property
    def total_w(self) -> Any:
        """Power of the facility [W]: PUE x IT."""
        return self.it_w * np.asarray(self.pue)

    @property
    def dense_flops(self) -> Any:
        """Peak rate without sparsity, in `rate_format` [FLOP/s]."""
        return self.gpus * self.gpu_dense_flops

    @property
    def sparse_flops(self) -> Any:
        """Peak rate with 2:4 sparsity [FLOP/s], NaN where the catalog has none."""
        return self.gpus * self.gpu_sparse_flops

    @property
    def memory_bytes(self) -> Any:
        """Memory of all GPUs [bytes]."""
        return self.gpus * self.gpu_memory_bytes

    @property
    def racks_usd(self) -> Any:
        """What the racks cost [USD]."""
        return self.racks * self.rack_usd

    @property
    def total_usd(self) -> Any:
        """Cost of the datacenter [USD]: the budget, or where another limit binds, racks (and network) / their share."""
        shared = self.racks_usd if self.network is None else self.racks_usd + self.network_usd
        implied = shared / self._racks_share
        if self.budget_usd is None:
            return implied
        return np.where(self._most_racks["budget"] > self.racks, implied, self.budget_usd)[()]

    @cached_property
    def network_usd(self) -> Any:
        """Price of `network` [USD], or by the rule of thumb the network's share of the budget."""
        return self.total_usd * self.network_share if self.network is None else self.network.price_usd(self.racks)

    def table(self) -> pd.DataFrame:
        """A row for each point of a sweep: binding, racks, gpus, total_usd, total_w, dense_flops, memory_bytes."""
        names = ("binding", "racks", "gpus", "total_usd", "total_w", "dense_flops", "memory_bytes")
        columns = np.broadcast_arrays(*(getattr(self, name) for name in names))
        return pd.DataFrame({name: values.ravel() for name, values in zip(names, columns, strict=True)})

    def __str__(self) -> str:
        shown = self.table().rename(columns={"total_usd": "cost_usd", "total_w": "power_w"})
        rates = [show(rate, "FLOP/s", 4) for rate in shown["dense_flops"]]
        return readable(shown.assign(dense_flops=rates)).to_string(index=False)


def _fit_with_network(limit: Any, rack: Any, of_network: Callable[[Any], Any], share: Any, racks: Any) -> Any:
    """Whether racks and their network keep a limit: racks x rack + network / share <= limit."""
    return racks * rack + of_network(racks) / share <= np.asarray(limit) * _ROUNDING


def narrowest_format(gpu: str) -> str:
    """Narrowest number format that a catalog GPU has a dense rate for: "fp4", "fp8" or "bf16"."""
    rates = catalog.item("gpus", gpu)
    return next((name for name in _NUMBER_FORMATS if f"{name}_dense_rate" in rates), _NUMBER_FORMATS[-1])


@checked
def datacenter_size(
    budget_usd: DollarsArray | None = None,
    platform: str = _DEFAULT_PLATFORM,
    price_book: str = DEFAULT_BOOK,
    variant: str = "",
    rate_format: str = "",
    power_w: WattsArray | None = None,
    gpus: CountArray | None = None,
    racks: CountArray | None = None,
    network: NetworkOfRacks | str = "parts",
    **changes: Any,
) -> Sizing:
    """A datacenter of catalog racks for a budget, a power or a count, or the least of several; arrays are sweeps.

    Such as datacenter_size("10 B USD"), datacenter_size(power_w="1 GW"), datacenter_size(gpus=9216).

    Parameters
    ----------
    budget_usd
        Of the whole datacenter [USD]; None where it does not limit the racks.
    platform
        Of the catalog's platforms, with a price and a power.
    price_book
        Of the catalog's prices: of ports and optics; shares of the budget for racks and network; power share of
        storage. Shares that it lacks are the default book's.
    variant
        Its rows replace others where an item has them: `variant_row`.
    rate_format
        "fp4", "fp8" or "bf16", by default the GPU's narrowest.
    power_w
        That the facility may draw, cooling and all (PUE x IT) [W].
    gpus
        At most so many GPUs; those that do not fill a rack are left out.
    racks
        At most so many racks.
    network
        "parts" counts a rail-optimized network of the usual scale-out switch (`rack_network`), "shares" takes the
        book's shares of budget and power, a rule of thumb; or a `NetworkOfRacks`.
    changes
        Any field of `Sizing`, in place of the catalog's.

    Returns
    -------
    A `Sizing`.

    Raises
    ------
    UnknownName
        For names or rows that the catalog lacks.
    ValueError
        As `Sizing`: no limit, or too little of one for a rack.

    Examples
    --------
    >>> import railcore as rc
    >>> size = rc.datacenter_size("10 B USD", power_w="500 MW", rate_format="fp8")
    >>> size.binding, int(size.racks), int(size.gpus)
    ('budget', 2048, 147456)
    >>> rc.show(size.dense_flops, "FLOP/s", 3)
    '737 EFLOP/s'
    """
    for name, count in (("gpus", gpus), ("racks", racks)):
        if count is not None:
            checks.whole(name, count)
    if price_book not in catalog.names("prices"):
        books = [name for name in catalog.names("prices") if "compute_share" in catalog.item("prices", name)]
        raise catalog.UnknownName("price_book", price_book, books, catalog.rows_to_add("prices", price_book))
    if isinstance(network, str):
        checks.one_of("network", network, ("parts", "shares"))
    rack, prices = catalog.item("platforms", platform), catalog.item("prices", price_book)
    gpu, by_share = catalog.item("gpus", rack["gpu"]), isinstance(network, str) and network == "shares"
    narrowest = checks.one_of("rate_format", rate_format or narrowest_format(gpu.name), _NUMBER_FORMATS)
    rows = {
        "rack_usd": (rack, variant_row(rack, "price", variant)),
        "rack_w": (rack, variant_row(rack, "power", variant)),
        "rack_gpus": (rack, "gpus"),
        "gpu_dense_flops": (gpu, f"{narrowest}_dense_rate"),
        "gpu_memory_bytes": (gpu, variant_row(gpu, "memory", variant)),
        "pue": (catalog.item("prices", "energy"), "pue"),
    }
    if f"{narrowest}_sparse_rate" in gpu:
        rows["gpu_sparse_flops"] = gpu, f"{narrowest}_sparse_rate"
    others_w = "storage_network_power_share" if by_share else "storage_power_share"
    shares = {"compute_share": "compute_share", "network_share": "network_share", "other_power_share": others_w}
    for name, row in shares.items():
        rows[name] = (prices if row in prices else catalog.item("prices", DEFAULT_BOOK)), row
    read_values = _read(rows, changes)
    others: dict[str, Any] = {"power_w": power_w, "most_gpus": gpus, "most_racks": racks, "price_book": price_book}
    others |= {"network": network, "rate_format": "" if "gpu_dense_flops" in changes else narrowest}
    if isinstance(network, str):
        nic_Bps, rack_gpus = rack[variant_row(rack, "nic_bandwidth", variant)], (read_values | changes)["rack_gpus"]
        others["network"] = None if by_share else rack_network(rack_gpus, nic_Bps, price_book)
    return Sizing(budget_usd, **others, **read_values, **changes)


@checked
@dataclass(frozen=True)
class DatacenterSite:
    """Racks that train one model, in one or several datacenters; every field may be an array, all of one shape.

    racks: of all datacenters.
    rack_gpus: GPUs of a rack, which is one HB domain (scale-up or NVLink domain).
    gpu_rate: that matrix products reach on a GPU [FLOP/s]. The catalog has the peak, at which compute is too short and
        the exposed share too high: give peak x utilization.
    memory_bytes: of a GPU.
    hb_Bps, nic_Bps, wan_Bps: scale-up, scale-out and wide-area bandwidth of a GPU, one direction [bytes/s].
    host_Bps: between a GPU and its host's memory, one direction [bytes/s].
    datacenters: they share the racks evenly.
    one_way_delay_s: propagation between two of them [s].
    tail_loss_rtts: round trips that a loss at the end of a wide-area transfer adds.

    Several datacenters need a finite wan_Bps.
    """

    racks: Annotated[Quantities, Range(0)]
    rack_gpus: Annotated[Quantities, Range(0)]
    gpu_rate: PositiveFlopRateArray
    memory_bytes: PositiveBytesArray
    hb_Bps: PositiveBandwidthArray
    nic_Bps: PositiveBandwidthArray
    host_Bps: PositiveBandwidthArray
    wan_Bps: Annotated[Quantities, Range(0, infinite=True, example="400 Gbps")] = np.inf
    datacenters: Annotated[Quantities, Range(0)] = 1
    one_way_delay_s: SecondsArray = 0.0
    tail_loss_rtts: NonNegativeArray = 0.0
    made_by = "datacenter_site(racks, platform, rate)"

    def __post_init__(self) -> None:
        for name in ("racks", "rack_gpus", "datacenters"):
            checks.whole(name, getattr(self, name))
        if np.any(np.asarray(self.datacenters) > 1):
            if np.any(np.isinf(np.asarray(self.wan_Bps, float))):
                raise ValueError(f"datacenters is {self.datacenters!r}: give a finite wan_Bps, such as '100 Gbps'")
            checks.positive("wan_Bps", self.wan_Bps)

    @property
    def gpus(self) -> Any:
        """GPUs of all datacenters."""
        return np.asarray(self.racks) * self.rack_gpus


@checked
def datacenter_site(
    racks: CountArray, platform: str, rate: str, catalog_site: str = "", variant: str = "", **changes: Any
) -> DatacenterSite:
    """A machine of catalog racks, such as datacenter_site(1000, "GB200 NVL72", "fp8_dense_rate", nic_Bps=1e11).

    Parameters
    ----------
    racks
        Racks of all datacenters.
    platform
        Of the catalog's platforms: a rack or a server, one HB domain.
    rate
        Row of the platform's GPU with its rate, such as "fp8_dense_rate"; "fp8" is short for it.
    catalog_site
        Of the catalog's sites: datacenters, wide-area capacity and delay. By default one datacenter.
    variant
        Its rows replace others where an item has them: `variant_row`.
    changes
        Any field of `DatacenterSite`, in place of the catalog's.

    Returns
    -------
    A `DatacenterSite`.

    Raises
    ------
    UnknownName
        For names that the catalog lacks.

    Examples
    --------
    >>> import railcore as rc
    >>> site = rc.datacenter_site(1000, "GB200 NVL72", "fp8", nic_Bps="800 Gbps")
    >>> site.rack_gpus, rc.show(site.gpu_rate, "FLOP/s")
    (72, '5 PFLOP/s')
    """
    rack = catalog.item("platforms", platform)
    gpu = catalog.item("gpus", rack["gpu"])
    rows = {
        "rack_gpus": (rack, "gpus"),
        "gpu_rate": (gpu, f"{rate}_dense_rate" if rate in _NUMBER_FORMATS else rate),
        "memory_bytes": (gpu, variant_row(gpu, "memory", variant)),
        "hb_Bps": (rack, variant_row(rack, "hb_bandwidth", variant)),
        "nic_Bps": (rack, variant_row(rack, "nic_bandwidth", variant)),
        "host_Bps": (gpu, "cpu_bandwidth" if "cpu_bandwidth" in gpu else "pcie_bandwidth"),
    }
    if catalog_site:
        place = catalog.item("sites", catalog_site)
        names = {"wan_Bps": "wan_bandwidth", "datacenters": "datacenters", "one_way_delay_s": "one_way_delay"}
        rows |= {name: (place, row) for name, row in names.items()}
    return DatacenterSite(racks=racks, **_read(rows, changes), **changes)


def _read(rows: Mapping[str, tuple[catalog.Item, str]], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of rows by name, counts whole. A row is not looked up where `changes` has the name."""
    values = {name: item[row] for name, (item, row) in rows.items() if name not in changes}
    return values | {name: int(values[name]) for name in ("rack_gpus", "datacenters") if name in values}
