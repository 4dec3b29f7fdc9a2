"""What a spec means: models and numbers in SI units, the same for all candidates."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.units import show, year
from railcore.datacenter.operation import OperatingPrices
from railcore.deploy.cluster import Cluster
from railcore.deploy.cluster_cost import cluster_network_parts
from railcore.network.price_books import (
    DEFAULT_BOOK,
    FARTHEST_RATE,
    PriceBook,
    book_of_links,
    matching_books,
    power_book,
    rows_of_book,
)
from railcore.network.reliability import host_gpus
from railcore.network.switches import switch_model, usual_networks
from railcore.planner.spec import PowerSpec, PriceSpec, SiteSpec, Spec, batch_size
from railcore.strategies.gpu_counts import gpu_counts, near_batches
from railcore.strategies.splits import allowed_values
from railcore.training.launch_lines import megatron_run
from railcore.training.machine import Machine, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, as_model

if TYPE_CHECKING:
    from railcore.siting.areas import Area

Values = Mapping[tuple[str, str, str], Any]  # draws of catalog rows by family, item and parameter
_EVEN = 16  # the power of 2 that should divide a batch
_WITHIN = 1.03  # times the least time: batches as fast are ordered by other terms


@dataclass(frozen=True)
class Case:
    """A spec with what the catalog says.

    spec: as read.
    model, machine, runtime: what is trained, on which GPU (on no fabric), with which software.
    tokens: of the training.
    batch: sequences of an iteration: an int is taken as it is, a float may be rounded.
    radix: ports of a switch at the NIC's rate.
    prices, powers: books for links of the NIC's rate.
    rack: the platform in the catalog.
    own_strategy: of job.mapping or job.launch, with its batch; None where the spec has neither.
    warnings: of the launch line, and of HB domains larger than the platform.
    """

    spec: Spec
    model: Transformer
    machine: Machine
    runtime: Runtime
    tokens: float
    batch: float | int
    radix: int
    prices: PriceBook
    powers: PriceBook
    rack: catalog.Item = field(repr=False)
    own_strategy: tuple[Strategy, int] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def rack_gpus(self) -> int:
        """GPUs of a server or rack of the platform."""
        return int(self.rack["gpus"])

    def number(self, key: tuple[str, str, str], values: Values, own: Any = None) -> Any:
        """A number: the spec's own, else draws of a catalog row, else the row's value. key: of the row."""
        if own is not None:
            return own
        return values[key] if key in values else catalog.item(*key[:2])[key[2]]

    def rack_costs(self, values: Values) -> dict[str, Any]:
        """Price and power of a rack, and PUE, as fields of `Sizing`."""
        books, name = self.spec.books, self.rack.name
        return {
            "rack_usd": self.number(("platforms", name, "price"), values, books.server),
            "rack_w": self.number(("platforms", name, "power"), values, books.server_power),
            "pue": self.number(("prices", "energy", "pue"), values, self.spec.operation.pue),
        }

    def operating_prices(self, values: Values, site_usd_per_J: float | None = None) -> OperatingPrices:
        """Prices of time: electricity of the spec, else of the site's state, else of the catalog."""
        operation = self.spec.operation
        price = site_usd_per_J if operation.electricity is None else operation.electricity
        life = operation.years and operation.years * year
        return OperatingPrices(
            self.number(("prices", "energy", "electricity_price"), values, price),
            self.number(("operation", "machine", "useful_life"), values, life),
            self.number(("operation", "machine", "mean_load"), values, operation.load),
        )

    def books(self, values: Values) -> tuple[PriceBook, PriceBook]:
        """Books of prices and powers, with draws of their rows."""
        return _drawn(self.prices, values), _drawn(self.powers, values)

    def radix_of_planes(self, planes: int) -> int:
        """Ports of a switch at a plane's share of the NIC, over planes. Raises ValueError for a rate that it lacks."""
        if self.spec.network.radix is not None:
            return self.radix
        return _switch_ports(self.spec, self.machine.nic_Bps / planes) // planes

    @property
    def flops(self) -> float:
        """FLOPs of the model over the whole training."""
        return float(self.model.training_flops(1)) * self.tokens / self.model.sequence_length

    @cached_property
    def _sides(self) -> dict[int, pd.DataFrame]:
        return {}

    def side_networks(self, gpus: int) -> pd.DataFrame:
        """Parts and cost of the networks of cluster.include, of servers that share a NIC on each; none by default.

        Management links have the catalog's own books.
        """
        if gpus not in self._sides:
            host = min(host_gpus(self.rack.name), self.rack_gpus)
            cluster = Cluster(nodes=math.ceil(gpus / host), gpus_per_node=int(host))
            books = {"management": matching_books("management2025")}
            self._sides[gpus] = cluster_network_parts(cluster, self.prices, self.powers, books=books)
        table = self._sides[gpus]
        return table[table["network"].isin(self.spec.cluster.include)]

    def tried(self, gpus: int) -> pd.DataFrame:
        """Rows of `counts` that are searched: the first, then others that may be better.

        Others are those faster by the short search. Where 16 does not divide the first one's batch they are all, since
        that batch leaves few strategies on some networks.
        """
        counts = self.counts(gpus)
        if len(counts) < 2:
            return counts
        first, rest = counts.iloc[:1], counts.iloc[1:]
        even = math.gcd(int(first["global_batch"].iloc[0]), _EVEN) == _EVEN
        others = rest[rest["sequence_s"] < first["sequence_s"].iloc[0]] if even else rest
        return pd.concat([first, others])

    def batches(self, gpus: int) -> list[int]:
        """Batches that are tried on this number of GPUs, the nearest to the asked one first."""
        return [self.batch] if isinstance(self.batch, int) else near_batches(self.batch, gpus)

    @cached_property
    def _counts(self) -> dict[int, pd.DataFrame]:
        return {}

    def counts(self, gpus: int) -> pd.DataFrame:
        """Rows of `gpu_counts` of a cluster, the preferred one first.

        Rows within 3% of the least time come first. Of these, batches that a higher power of 2 divides, up to 16, since
        they leave every network more strategies; then those nearer to the asked one.
        """
        if gpus not in self._counts:
            options = {"runtime": self.runtime, "offload": self.spec.job.offload, **self.spec.job.search}
            machine = self.machine.changed(hb_domain_size=min(self.machine.hb_domain_size, gpus))
            use_all = self.spec.cluster.use == "all"
            counts = gpu_counts(self.model, machine, gpus, self.batches(gpus), use_all=use_all, **options)
            near = counts["sequence_s"] <= _WITHIN * counts["sequence_s"].min()
            odd = -np.gcd(counts["global_batch"].to_numpy(int), _EVEN)
            off = (counts["global_batch"] - self.batch).abs().astype(float)
            order = np.lexsort([counts["sequence_s"], off.where(near, np.inf), odd, ~near])
            self._counts[gpus] = counts.iloc[order].reset_index(drop=True)
        return self._counts[gpus]


def _drawn(book: PriceBook, values: Values) -> PriceBook:
    """A book with draws of its rows."""
    if not values:
        return book
    rows = {part: row for part, row in rows_of_book(book).items() if (row.family, row.name, row.parameter) in values}
    drawn = {part: values[row.family, row.name, row.parameter] for part, row in rows.items()}
    exponent = drawn.pop("rate_exponent", None)
    if drawn:
        book = book.times({part: number / rows[part].value for part, number in drawn.items()})
    return book if exponent is None else book.with_exponent(exponent)


def area_of(spec: SiteSpec) -> "Area":
    """Where places may be. Raises ValueError for a place that is not known."""
    from railcore.siting.areas import Area  # only where a site is asked for: it takes a third of a second

    near_m = None if spec.near is None else spec.within
    return Area(spec.near, near_m, spec.states, spec.most_people, spec.people_within, spec.authorities)


def case_of(spec: Spec) -> Case:
    """The case of a spec. Raises ValueError by dotted key for what the models refuse."""
    with _Blamed("job.model"):
        model = as_model(spec.job.model) if isinstance(spec.job.model, str) else _own_model(spec.job.model)
    rack = catalog.item("platforms", spec.cluster.platform)
    with _Blamed("cluster and job.precision"):
        machine = catalog_machine(rack.name, spec.job.precision, spec.cluster.hb_domain_size, spec.cluster.nic)
    with _Blamed("job.search"):
        if "global_batch" in spec.job.search:
            raise ValueError("global_batch is given: give job.batch in its place")
        allowed_values(1, dict(spec.job.search))
    for name, key in (("price", "server"), ("power", "server_power")):
        if name not in rack and getattr(spec.books, key) is None:
            raise ValueError(f"cluster.platform: the catalog has no {name} of {rack.name}: give books.{key}")
    row = catalog.item("models", model.name) if model.name in catalog.names("models") else None
    tokens = spec.job.tokens or (row.get("training_tokens") if row else None)
    if tokens is None:
        raise ValueError(f"job.tokens is missing, and the catalog has none of {model.name}: give it, such as 15e12")
    with _Blamed("network"):
        radix = spec.network.radix or _switch_ports(spec, machine.nic_Bps)
    with _Blamed("books"):
        prices, powers = _books(spec, machine.nic_Bps)
        for book in (prices, powers):
            if book.source_Bps and not 1 / FARTHEST_RATE <= machine.nic_Bps / book.source_Bps <= FARTHEST_RATE:
                rates = [show(rate, "bps") for rate in (book.source_Bps, machine.nic_Bps)]
                raise ValueError(f"{book.name} is of {rates[0]} links, NICs have {rates[1]}: give a nearer book")
    runtime = as_runtime(spec.job.runtime, machine)
    batch = _batch(spec, model, row)
    if spec.site is not None:
        with _Blamed("site"):
            area_of(spec.site)
    strategy, warnings = _own_strategy(spec, model, int(rack["gpus"]), batch)
    if machine.hb_domain_size > int(rack["gpus"]):
        larger = f"HB domains of {machine.hb_domain_size:,} GPUs are larger than {rack.name}, of {int(rack['gpus'])}"
        warnings = (*warnings, f"{larger}: the price and power of what joins its servers are not counted.")
    return Case(spec, model, machine, runtime, float(tokens), batch, radix, prices, powers, rack, strategy, warnings)


class _Blamed:
    """Puts a dotted key before the message of a ValueError."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError | TypeError):
            raise ValueError(f"{self.key}: {error}") from None


def _own_model(sizes: Mapping[str, Any]) -> Transformer:
    names = [size.name for size in fields(Transformer)]
    if stray := [name for name in sizes if name not in names]:
        raise ValueError(f"{stray[0]} is no size: the nearest are {catalog.nearest_names(stray[0], names)}")
    needed = [size.name for size in fields(Transformer) if size.default is MISSING and size.default_factory is MISSING]
    if missing := [name for name in needed if name not in ("name", *sizes)]:
        gated = " (3 for a gated feed-forward, SwiGLU, else 2)" if "ffn_matrices" in missing else ""
        raise ValueError(f"{', '.join(missing)} missing: give these sizes too{gated}")
    return Transformer(**{"name": "own model", **sizes})


def _own_strategy(
    spec: Spec, model: Transformer, rack_gpus: int, batch: float | int
) -> tuple[tuple[Strategy, int] | None, tuple[str, ...]]:
    """The strategy of job.mapping or job.launch with its batch [sequences], and warnings of the line."""
    job, cluster = spec.job, spec.cluster
    racks = math.ceil(cluster.gpus / rack_gpus) if cluster.gpus else cluster.racks
    if job.launch is not None:
        gpus = cluster.gpus or (racks * rack_gpus if racks else None)
        if gpus is None:
            raise ValueError("job.launch needs a number of GPUs: give cluster.gpus or cluster.racks")
        with _Blamed("job.launch"):
            run = megatron_run(job.launch, gpus)
            for name in ("layers", "hidden", "heads") if run.model else ():
                if (line := getattr(run.model, name)) != (own_size := getattr(model, name)):
                    raise ValueError(f"the line's model has {name} {line}, job.model {own_size}: give the same model")
        return (run.strategy, run.global_batch), tuple(f"job.launch: {text}" for text in run.warnings)
    if job.mapping is None:
        return None, ()
    with _Blamed("job.mapping"):
        mapping = dict(job.mapping)
        sequences = mapping.pop("global_batch", None)
        strategy = Strategy(**mapping)
        if racks and strategy.gpus > racks * rack_gpus:
            raise ValueError(f"it takes {strategy.gpus:,} GPUs of {racks * rack_gpus:,}: give one of fewer")
        if sequences is None:
            step = strategy.data * strategy.micro_batch
            sequences = batch if isinstance(batch, int) else max(round(batch / step), 1) * step
        strategy.microbatches(sequences)
    return (strategy, int(sequences)), ()


def _switch_ports(spec: Spec, rate_Bps: float) -> int:
    """Ports of the spec's switch at a rate."""
    switch = switch_model(spec.network.switch or usual_networks()["scale-out"]["switch"])
    return switch.ports * switch.ports_of_interface(rate_Bps)


def _books(spec: Spec, nic_Bps: float) -> tuple[PriceBook, PriceBook]:
    """Books for links of the NIC's rate. What the spec's own leave out is the default book's."""
    prices, powers = spec.books.prices, spec.books.powers
    names = [book if isinstance(book, str) else None for book in (prices, powers)]
    of_price, of_power = matching_books(names[0] or DEFAULT_BOOK, names[1], nic_Bps)
    if isinstance(prices, PriceSpec):
        of_price = _own_book("prices", "USD", prices, of_price.name, nic_Bps)
        if powers is None:
            of_power = book_of_links("powers", power_book(DEFAULT_BOOK), nic_Bps)
    if isinstance(powers, PowerSpec):
        of_power = _own_book("powers", "W", powers, of_power.name, nic_Bps)
    return of_price, of_power


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


def _batch(spec: Spec, model: Transformer, row: catalog.Item | None) -> float | int:
    """Sequences of an iteration: an int is taken as it is, a float may be rounded. row: the model in the catalog."""
    asked = spec.job.batch
    if isinstance(asked, int):
        return asked
    if asked is None:
        if row is None or "batch" not in row:
            raise ValueError(f'job.batch is missing, and the catalog has none of {model.name}: give it, "4M tokens"')
        usual = row.row("batch")
        if usual.unit != "tokens":
            return int(usual.value)
        tokens = usual.value
    else:
        try:
            size, what = batch_size(asked)
        except ValueError as error:
            raise ValueError(f"job.batch is {asked!r}: {error}") from None
        if what == "sequences":
            return int(size)
        tokens = size
        if tokens < model.sequence_length:
            raise ValueError(f"job.batch is {asked!r}: give a sequence of {model.sequence_length:,} tokens or more")
    return float(tokens / model.sequence_length)
