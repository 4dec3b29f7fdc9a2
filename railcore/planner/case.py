"""What a spec means: models and numbers in SI units, the same for all candidates."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import quantity
from railcore.catalog.checks import whole
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
from railcore.network.switches import SwitchModel, switch_model, usual_networks
from railcore.planner.spec import PriceSpec, SiteSpec, Spec
from railcore.strategies.gpu_counts import gpu_counts, near_batches
from railcore.strategies.splits import allowed_values
from railcore.training.launch_lines import megatron_run
from railcore.training.machine import Machine, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, as_model

Values = Mapping[tuple[str, str, str], Any]  # draws of catalog rows by family, item and parameter
_EVEN = 16  # powers of 2 that a batch is wished to have
_WITHIN = 1.03  # times the fastest: a batch nearer to the asked one is taken


@dataclass(frozen=True)
class Case:
    """A spec with what the catalog says.

    spec: as given.
    model, machine, runtime: what is trained, on which GPU (on no fabric), with which software.
    tokens: of the training.
    batch: sequences of an iteration that are asked for; a whole number where it is to be taken as it is.
    radix: ports of a switch at the NIC's rate.
    prices, powers: books for links of the NIC's rate.
    rack: the platform in the catalog.
    own_strategy: of job.mapping or job.launch, with its batch; None where the spec has neither.
    warnings: what is odd about the launch line, and HB domains that are larger than the platform.
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

    def number(self, key: tuple[str, str, str], values: Values, given: Any = None) -> Any:
        """A number of the spec, or else of the catalog, or draws of that row."""
        if given is not None:
            return given
        return values[key] if key in values else catalog.item(*key[:2])[key[2]]

    def rack_costs(self, values: Values) -> dict[str, Any]:
        """Price and power of a rack, and PUE, as fields of `Sizing`."""
        own, name = self.spec.books, self.rack.name
        return {
            "rack_usd": self.number(("platforms", name, "price"), values, own.server),
            "rack_w": self.number(("platforms", name, "power"), values, own.server_power),
            "pue": self.number(("prices", "energy", "pue"), values, self.spec.operation.pue),
        }

    def operating_prices(self, values: Values, site_usd_per_J: float | None = None) -> OperatingPrices:
        """Prices of time: electricity of the spec, else of the site's state, else of the catalog."""
        own = self.spec.operation
        price = site_usd_per_J if own.electricity is None else own.electricity
        life = self.number(("operation", "machine", "useful_life"), values, own.years and own.years * year)
        return OperatingPrices(
            self.number(("prices", "energy", "electricity_price"), values, price),
            life,
            self.number(("operation", "machine", "mean_load"), values, own.load),
        )

    def books(self, values: Values) -> tuple[PriceBook, PriceBook]:
        """Books of prices and powers, with draws of their rows."""
        return _drawn(self.prices, values), _drawn(self.powers, values)

    def radix_of_planes(self, planes: int) -> int:
        """Ports of a switch at a plane's share of the NIC, over planes. Raises ValueError for a rate that it lacks."""
        if self.spec.network.radix is not None:
            return self.radix
        switch = _switch(self.spec)
        return switch.ports * switch.ports_of_interface(self.machine.nic_Bps / planes) // planes

    @property
    def flops(self) -> float:
        """FLOPs of the model over the whole training."""
        return float(self.model.training_flops(1)) * self.tokens / self.model.sequence_length

    @cached_property
    def _sides(self) -> dict[int, pd.DataFrame]:
        return {}

    def side_networks(self, gpus: int) -> pd.DataFrame:
        """Parts and cost of the networks of cluster.include, of servers that share a NIC on each; none by default.

        Management links are of the catalog's own books for them.
        """
        asked = list(self.spec.cluster.include)
        if gpus not in self._sides:
            host = min(host_gpus(self.rack.name), self.rack_gpus)
            cluster = Cluster(nodes=math.ceil(gpus / host), gpus_per_node=int(host))
            own = {"management": matching_books("management2025")}
            self._sides[gpus] = cluster_network_parts(cluster, self.prices, self.powers, books=own)
        table = self._sides[gpus]
        return table[table["network"].isin(asked)]

    def tried(self, gpus: int) -> pd.DataFrame:
        """Rows of `counts` that are searched: the first, then others that may be better.

        These are rows that are faster by the short search; and where few powers of 2 divide the first one's batch, the
        others, for networks on which it leaves few strategies.
        """
        found = self.counts(gpus)
        if len(found) < 2:
            return found
        first, rest = found.iloc[:1], found.iloc[1:]
        even = math.gcd(int(first["global_batch"].iloc[0]), _EVEN) == _EVEN
        others = rest[rest["sequence_s"] < first["sequence_s"].iloc[0]] if even else rest
        return pd.concat([first, others])

    def batches(self, gpus: int) -> list[int]:
        """Batches that are tried on so many GPUs, the nearest to the asked one first."""
        return [self.batch] if isinstance(self.batch, int) else near_batches(self.batch, gpus)

    @cached_property
    def _counts(self) -> dict[int, pd.DataFrame]:
        return {}

    def counts(self, gpus: int) -> pd.DataFrame:
        """Rows of `gpu_counts` of a cluster, the one to take first.

        Of batches within 3% of the fastest those come first that more powers of 2 divide, up to 16, as they leave every
        network more strategies; of these the nearest to the asked one.
        """
        if gpus not in self._counts:
            given = {"runtime": self.runtime, "offload": self.spec.job.offload, **self.spec.job.search}
            machine = self.machine.changed(hb_domain_size=min(self.machine.hb_domain_size, gpus))
            use_all = self.spec.cluster.use == "all"
            found = gpu_counts(self.model, machine, gpus, self.batches(gpus), use_all=use_all, **given)
            near = found["sequence_s"] <= _WITHIN * found["sequence_s"].min()
            odd = -np.gcd(found["global_batch"].to_numpy(int), _EVEN)
            off = (found["global_batch"] - self.batch).abs().astype(float)
            order = np.lexsort([found["sequence_s"], off.where(near, np.inf), odd, ~near])
            self._counts[gpus] = found.iloc[order].reset_index(drop=True)
        return self._counts[gpus]


def _drawn(book: PriceBook, values: Values) -> PriceBook:
    """A book with draws of its rows."""
    if not values:
        return book
    rows = {part: row for part, row in rows_of_book(book).items() if (row.family, row.name, row.parameter) in values}
    drawn = {part: values[row.family, row.name, row.parameter] for part, row in rows.items()}
    exponent = drawn.pop("rate_exponent", None)
    found = book.times({part: number / rows[part].value for part, number in drawn.items()}) if drawn else book
    return found if exponent is None else found.with_exponent(exponent)


def checked_area(spec: SiteSpec) -> Any:
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
    for name, given in (("price", spec.books.server), ("power", spec.books.server_power)):
        if name not in rack and given is None:
            key = "server" if name == "price" else "server_power"
            raise ValueError(f"cluster.platform: the catalog has no {name} of {rack.name}: give books.{key}")
    known = catalog.item("models", model.name) if model.name in catalog.names("models") else {}
    tokens = spec.job.tokens or known.get("training_tokens")
    if tokens is None:
        raise ValueError(f"job.tokens is missing, and the catalog has none of {model.name}: give it, such as 15e12")
    with _Blamed("network"):
        radix = int(whole("radix", spec.network.radix or _switch_ports(spec, machine.nic_Bps), 2))
    with _Blamed("books"):
        prices, powers = _books(spec, machine.nic_Bps)
        for book in (prices, powers):
            if book.source_Bps and not 1 / FARTHEST_RATE <= machine.nic_Bps / book.source_Bps <= FARTHEST_RATE:
                rates = [show(rate, "bps") for rate in (book.source_Bps, machine.nic_Bps)]
                raise ValueError(f"{book.name} is of {rates[0]} links, NICs have {rates[1]}: give a nearer book")
    runtime = as_runtime(spec.job.runtime, machine)
    batch = _batch(spec, model, known)
    if spec.site is not None:
        with _Blamed("site"):
            checked_area(spec.site)
    own, odd = _own_strategy(spec, model, int(rack["gpus"]), batch)
    if machine.hb_domain_size > int(rack["gpus"]):
        larger = f"HB domains of {machine.hb_domain_size:,} GPUs are larger than {rack.name}, of {int(rack['gpus'])}"
        odd = (*odd, f"{larger}: the price and power of what joins its servers are not counted.")
    return Case(spec, model, machine, runtime, float(tokens), batch, radix, prices, powers, rack, own, odd)


class _Blamed:
    """Whose fault a ValueError is: the dotted key stands before the message."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError | TypeError):
            raise ValueError(f"{self.key}: {error}") from None


def _own_model(sizes: Mapping[str, Any]) -> Transformer:
    known = [each.name for each in fields(Transformer)]
    if stray := [name for name in sizes if name not in known]:
        raise ValueError(f"{stray[0]} is no size: the nearest are {catalog.nearest_names(stray[0], known)}")
    needed = [each.name for each in fields(Transformer) if each.default is MISSING and each.default_factory is MISSING]
    if missing := [name for name in needed if name not in ("name", *sizes)]:
        gated = " (3 for a gated feed-forward, SwiGLU, else 2)" if "ffn_matrices" in missing else ""
        raise ValueError(f"{', '.join(missing)} missing: give these sizes too{gated}")
    return Transformer(**{"name": "own model", **sizes})


def _own_strategy(
    spec: Spec, model: Transformer, rack_gpus: int, batch: float | int
) -> tuple[tuple[Strategy, int] | None, tuple[str, ...]]:
    """The strategy of job.mapping or job.launch with its batch [sequences], and what is odd about the line."""
    job, asked_of = spec.job, spec.cluster
    racks = math.ceil(asked_of.gpus / rack_gpus) if asked_of.gpus else asked_of.racks
    if job.launch is not None:
        gpus = asked_of.gpus or (racks * rack_gpus if racks else None)
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
        own = dict(job.mapping)
        given = "global_batch" in own
        asked = own.pop("global_batch", batch)
        strategy = Strategy(**own)
        if racks and strategy.gpus > racks * rack_gpus:
            raise ValueError(f"it takes {strategy.gpus:,} GPUs of {racks * rack_gpus:,}: give one of fewer")
        each = strategy.data * strategy.micro_batch
        if not given and not isinstance(batch, int):
            asked = max(round(batch / each), 1) * each  # the nearest that it divides
        strategy.microbatches(int(whole("global_batch", asked)))
    return (strategy, int(asked)), ()


def _switch(spec: Spec) -> SwitchModel:
    return switch_model(spec.network.switch or usual_networks()["scale-out"]["switch"])


def _switch_ports(spec: Spec, nic_Bps: float) -> int:
    switch = _switch(spec)
    return switch.ports * switch.ports_of_interface(nic_Bps)


def _books(spec: Spec, nic_Bps: float) -> tuple[PriceBook, PriceBook]:
    """Books for links of the NIC's rate. Numbers of one's own that leave something out have the default book's."""
    given = spec.books.prices, spec.books.powers
    names = [book if isinstance(book, str) else None for book in given]
    listed = list(matching_books(names[0] or DEFAULT_BOOK, names[1], nic_Bps))
    for place, (family, unit, book) in enumerate(zip(("prices", "powers"), ("USD", "W"), given, strict=True)):
        if book is not None and not isinstance(book, str):
            mine = PriceBook(
                **{name: getattr(book, name) for name in ("port", "transceiver", "dac", "circuit_port")},
                copper_name=listed[place].name if book.dac is None else "",
                circuit_name=listed[place].name if book.circuit_port is None else "",
                name=f"{book.name} (of the spec)",
                rate_Bps=book.rate,
                unit=unit,
            )
            listed[place] = book_of_links(family, mine, nic_Bps)
    if isinstance(spec.books.prices, PriceSpec) and spec.books.powers is None:
        listed[1] = book_of_links("powers", power_book(DEFAULT_BOOK), nic_Bps)
    return listed[0], listed[1]


def _batch(spec: Spec, model: Transformer, known: Mapping[str, Any]) -> float | int:
    """Sequences of an iteration that are asked for; a whole number where they are to be taken as they are."""
    asked = spec.job.batch
    if isinstance(asked, int):
        return asked
    if asked is None:
        if "batch" not in known:
            raise ValueError(f'job.batch is missing, and the catalog has none of {model.name}: give it, "4M tokens"')
        row = known.row("batch")  # type: ignore[attr-defined]
        if row.unit != "tokens":
            return int(row.value)
        tokens = row.value
    else:
        try:
            tokens = quantity(asked if "tokens" in asked else "", "16M tokens")
        except ValueError:
            raise ValueError(
                f'job.batch is {asked!r}: give sequences, such as 2048, or a text such as "16M tokens"'
            ) from None
        if tokens < model.sequence_length:
            raise ValueError(f"job.batch is {asked!r}: give a sequence of {model.sequence_length:,} tokens or more")
    return float(tokens / model.sequence_length)
