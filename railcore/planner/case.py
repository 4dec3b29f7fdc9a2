"""What a spec means: models and numbers in SI units, the same for all candidates."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import MOST_GPUS
from railcore.catalog.units import counted, number, show, year
from railcore.datacenter.operation import OperatingPrices
from railcore.datacenter.ownership import OwnershipTerms, ownership_terms
from railcore.deploy.cluster import Cluster
from railcore.deploy.cluster_cost import cluster_network_parts
from railcore.network.price_books import FARTHEST_RATE, PriceBook, rows_of_book
from railcore.network.reliability import host_gpus
from railcore.network.switches import TECHNOLOGIES
from railcore.planner.goals import NO_DIFFERENCE
from railcore.planner.links import link_books, link_switch, link_technology, side_books, switch_ports
from railcore.planner.measured_runs import spec_runs
from railcore.planner.price_basis import basis_factor
from railcore.planner.spec import JobSpec, Spec, batch_size
from railcore.strategies.gpu_counts import SIZES_FROM, job_sizes, near_batches
from railcore.strategies.splits import allowed_values
from railcore.training.error_spreads import LARGEST_LOG
from railcore.training.hugging_face import predicting_layers
from railcore.training.launch_lines import MegatronRun, megatron_run
from railcore.training.machine import Machine, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.prediction_error import ExpectedError, expected_error, own_errors
from railcore.training.run_file import no_runs
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, catalog_model

_EVEN = 16  # which divides a batch that rings of any usual number of ranks can share
Values = Mapping[tuple[str, str, str], Any]  # draws of catalog rows by family, item and parameter
_ADAPTERS = ("lora_rank", "lora_targets", "frozen_bytes")  # fields of a model that a job says beside it
_NO_SIZES = ("name", "imbalance", *_ADAPTERS)  # fields of a model that a launch line does not say
_OF_REPLICA = ("tensor", "context", "pipeline")  # fields of a strategy that a replica of the model takes


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
    warnings: of the launch line and the config.json, and of HB domains larger than the platform.
    measured_runs: the spec's own, with the columns of `own_runs`; without rows where it has none.
    run_models: models by name that these may have beside the catalog's, for `runs.predictions`.
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
    measured_runs: pd.DataFrame = field(default_factory=no_runs, repr=False, compare=False)
    run_models: Mapping[str, Transformer] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def own_errors(self) -> pd.DataFrame:
        """The spec's own runs with the model's times under their own strategy."""
        return own_errors(self.measured_runs, self.run_models)

    def expected_error(self, gpus: int, runtime: Runtime | str | None = None) -> ExpectedError:
        """Expected error of iteration times on so many GPUs, from published and own runs."""
        return expected_error(self.model, self.machine, gpus, runtime or self.runtime, own=self.own_errors)

    def published_error(self, gpus: int) -> ExpectedError:
        """The same from published runs alone."""
        return expected_error(self.model, self.machine, gpus, self.runtime)

    def time_scale(self, gpus: int) -> float:
        """What modelled times are multiplied by: the middle of what is expected with own runs; 1 without such runs."""
        return 1.0 if self.measured_runs.empty else self.expected_error(gpus).middle

    @cached_property
    def run_warnings(self) -> tuple[str, ...]:
        """Own runs that are far from their modelled time: a slip, or something that the model does not have."""
        if self.own_errors.empty:
            return ()
        times = self.own_errors["measured_iteration_s"] / self.own_errors["modelled_s"]
        far = times[np.abs(np.log(times)) > LARGEST_LOG]
        remedy = "is it the time of one iteration, and are tokens/s those of one GPU? It counts for little"
        return tuple(
            f"Run {place + 1} of yours takes {number(ratio, 2)} times the modelled time: {remedy}."
            for place, ratio in far.items()
        )

    @property
    def rack_gpus(self) -> int:
        """GPUs of a server or rack of the platform."""
        return int(self.rack["gpus"])

    @property
    def most_racks(self) -> int:
        """Racks up to which a cluster is looked at."""
        return MOST_GPUS // self.rack_gpus

    def number(self, key: tuple[str, str, str], values: Values, own: Any = None) -> Any:
        """A number: the spec's own, else draws of a catalog row, else the row's value. key: of the row."""
        if own is not None:
            return own
        return values[key] if key in values else catalog.item(*key[:2])[key[2]]

    def rack_costs(self, values: Values) -> dict[str, Any]:
        """Price and power of a rack, and PUE, as fields of `Sizing`."""
        books, name = self.spec.books, self.rack.name
        price_usd = books.server
        if price_usd is None:
            listed_usd = self.number(("platforms", name, "price"), values)
            price_usd = listed_usd * basis_factor(self.rack, books.basis, lambda key: self.number(key, values))
        return {
            "rack_usd": price_usd,
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

    @property
    def left_out(self) -> tuple[str, ...]:
        """Items of ownership that are not counted. Spares that the job leaves are among the GPUs that are bought."""
        operation = self.spec.operation
        return operation.leave_out if operation.spares is None else (*operation.leave_out, "spares")

    def ownership(self, values: Values) -> OwnershipTerms:
        """What owning the cluster costs beside wear and electricity."""
        return ownership_terms(self.left_out, values)

    def books(self, values: Values) -> tuple[PriceBook, PriceBook]:
        """Books of prices and powers, with draws of their rows."""
        return _drawn(self.prices, values), _drawn(self.powers, values)

    @property
    def technology(self) -> str:
        """Of the scale-out links: "Ethernet" or "InfiniBand"."""
        return link_technology(self.spec.network)

    @property
    def switch(self) -> str:
        """Switch of the scale-out network, of the catalog; "" where the spec gives its ports alone."""
        network = self.spec.network
        return "" if network.radix and not network.switch else link_switch(network, self.machine.nic_Bps)

    @property
    def links_text(self) -> str:
        """What the links are, what their parts cost, and that times do not tell Ethernet and InfiniBand apart."""
        rows, costs = rows_of_book(self.prices), []
        for part, what in (("port", "a switch port"), ("transceiver", "an end of an optical link")):
            price, row, span = getattr(self.prices, part), rows.get(part), ""
            if row is not None and row.low is not None and row.high is not None:
                span = f" ({' to '.join(show(price * end / row.value, 'USD', 3) for end in (row.low, row.high))})"
            costs.append(f"{what} {show(price, 'USD', 3)}{span}")
        ports = f"{self.radix} ports of {show(self.machine.nic_Bps, 'bps')}"
        other = next(technology for technology in TECHNOLOGIES if technology != self.technology)
        return (
            f"Links are {self.technology}, on {f'{self.switch}, ' if self.switch else 'switches of '}{ports}: "
            f"{' and '.join(costs)}, by {self.prices.name}. Times are taken to be the same on {other}: "
            "no public measurement of training was found that tells them apart."
        )

    def ports_of(self, planes: int = 1, switch: str | None = None) -> int:
        """Ports of a switch at a plane's share of the NIC, over planes. Raises ValueError for a rate that it lacks.

        switch: of the catalog; None for the plan's, where network.radix counts too.
        """
        if switch is None and self.spec.network.radix is not None:
            return self.radix
        return switch_ports(self.spec.network, self.machine.nic_Bps, planes, switch)

    @property
    def flops(self) -> float:
        """FLOPs of the model over the whole training."""
        return float(self.model.training_flops(1)) * self.tokens / self.model.sequence_length

    @cached_property
    def _sides(self) -> dict[int, pd.DataFrame]:
        return {}

    def side_networks(self, gpus: int) -> pd.DataFrame:
        """Parts and cost of the networks of cluster.include, of servers that share a NIC on each; none by default.

        Management links have books of their own, and Ethernet beside InfiniBand has Ethernet's.
        """
        if gpus not in self._sides:
            host = min(host_gpus(self.rack.name), self.rack_gpus)
            cluster = Cluster(nodes=math.ceil(gpus / host), gpus_per_node=int(host))
            self._sides[gpus] = cluster_network_parts(cluster, self.prices, self.powers, books=side_books(self.spec))
        table = self._sides[gpus]
        return table[table["network"].isin(self.spec.cluster.include)]

    def tried(self, gpus: int, circuits: bool = False) -> pd.DataFrame:
        """Rows of `counts` that are searched: the first, and the fastest where that is another one.

        circuits: whether rings of circuits share the batch: then the fastest one of a batch that 16 divides too.
        """
        counts = self.counts(gpus)
        by_time = counts.sort_values("sequence_s", kind="stable")
        even = by_time.index[by_time["global_batch"] % _EVEN == 0] if circuits else by_time.index[:0]
        return counts.loc[[*dict.fromkeys([*counts.index[:1], *by_time.index[:1], *even[:1]])]]

    def batches(self, gpus: int) -> list[int]:
        """Batches that are tried on this number of GPUs, the nearest to the asked one first."""
        return [self.batch] if isinstance(self.batch, int) else near_batches(self.batch, gpus)

    @cached_property
    def _sizes(self) -> dict[tuple[int, bool], pd.DataFrame]:
        return {}

    def sizes(self, gpus: int, use_all: bool = False) -> pd.DataFrame:
        """Numbers of GPUs in use, at most so many, and batches: rows of the table of `job_sizes`.

        Numbers that are near share a table, that of the next of a few numbers of racks, each a quarter above the last.
        """
        racks = math.ceil(gpus / self.rack_gpus)
        table = self._table(gpus if use_all else next_step(racks) * self.rack_gpus, use_all)
        K = min(self.machine.hb_domain_size, gpus)
        whole = gpus // K * np.minimum(table["hb_domain_size"], K)  # of a part of each domain
        usable = table["gpus"] <= whole.where(table["hb_domain_size"] < K, gpus)
        if not usable.any() and len(table):
            return self._table(gpus, use_all)
        return table[usable].reset_index(drop=True)

    def _table(self, gpus: int, use_all: bool) -> pd.DataFrame:
        if (gpus, use_all) not in self._sizes:
            options = {"runtime": self.runtime, "offload": self.spec.job.offload, **self.spec.job.search}
            machine = self.machine.changed(hb_domain_size=min(self.machine.hb_domain_size, gpus))
            self._sizes[gpus, use_all] = job_sizes(self.model, machine, gpus, self.batch, use_all=use_all, **options)
        return self._sizes[gpus, use_all]

    def counts(self, gpus: int) -> pd.DataFrame:
        """Rows of `sizes`, the preferred one first.

        Rows whose time is within NO_DIFFERENCE of the least come first: of these, those that leave fewer GPUs idle,
        then those whose batch is nearer to the asked one.
        """
        sizes = self.sizes(gpus, self.spec.cluster.use == "all")
        near = sizes["sequence_s"] <= (1 + NO_DIFFERENCE) * sizes["sequence_s"].min()
        idle = (gpus - sizes["gpus"]).astype(float).where(near, np.inf)
        off = (sizes["global_batch"] - self.batch).abs().astype(float).where(near, np.inf)
        order = np.lexsort([sizes["sequence_s"], off, idle])
        return sizes.iloc[order].reset_index(drop=True)


def next_step(racks: int) -> int:
    """The least of 1, 2, 3, 4, 5, 7, ... that is no less: each is 1 / SIZES_FROM times the one before, or 1 more."""
    step = 1
    while step < racks:
        step = max(step + 1, math.floor(step / SIZES_FROM))
    return step


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


def case_of(spec: Spec) -> Case:
    """The case of a spec. Raises ValueError by dotted key for what the models refuse."""
    rack, given = catalog.item("platforms", spec.cluster.platform), _given_model(spec.job)
    run = _launched(spec, given, int(rack["gpus"]))
    model, warnings = _model(spec.job, given, run)
    if spec.cluster.measured:
        warnings += _measured_warnings(spec, str(rack["gpu"]), rack.name)
    with _Blamed("job"):
        model = replace(
            model, **{name: getattr(spec.job, name) for name in _ADAPTERS if name in spec.job.model_fields_set}
        )
    with _Blamed("cluster and job.precision"):
        machine = catalog_machine(rack.name, spec.job.precision, spec.cluster.hb_domain_size, spec.cluster.nic)
    with _Blamed("job.search"):
        if "global_batch" in spec.job.search:
            raise ValueError("global_batch is given: give job.batch in its place")
        allowed_values(1, dict(spec.job.search))
    for name, key in (("price", "server"), ("power", "server_power")):
        if name not in rack and getattr(spec.books, key) is None:
            raise ValueError(f"cluster.platform: the catalog has no {name} of {rack.name}: give books.{key}")
    row = catalog.item("models", spec.job.model) if isinstance(spec.job.model, str) else None
    tokens = spec.job.tokens or (row.get("training_tokens") if row else None)
    if tokens is None:
        raise ValueError(f"job.tokens is missing, and the catalog has none of {model.name}: give it, such as 15e12")
    with _Blamed("network"):
        link_technology(spec.network)
        radix = spec.network.radix or switch_ports(spec.network, machine.nic_Bps)
    with _Blamed("books"):
        prices, powers = link_books(spec, machine.nic_Bps)
        for book in (prices, powers):
            if book.source_Bps and not 1 / FARTHEST_RATE <= machine.nic_Bps / book.source_Bps <= FARTHEST_RATE:
                rates = [show(rate, "bps") for rate in (book.source_Bps, machine.nic_Bps)]
                raise ValueError(f"{book.name} is of {rates[0]} links, NICs have {rates[1]}: give a nearer book")
    runtime = as_runtime(spec.job.runtime, machine)
    of_line = spec.job.batch is None and (row is None or "batch" not in row)
    batch = run.global_batch if run is not None and of_line else _batch(spec, model, row)
    if tokens < batch * model.sequence_length:
        raise ValueError(
            f"job.tokens is {tokens:g}, fewer than those of an iteration: give all, such as 15e12 or '15T'"
        )
    if spec.site is not None:
        from railcore.planner.site_terms import check_site  # only where one is asked for: it takes a third of a second

        check_site(spec.site)
    strategy = (run.strategy, run.global_batch) if run else _own_mapping(spec, int(rack["gpus"]), batch)
    if run:  # a line without sizes is of the model beside it
        texts = run.warnings if run.model else run.strategy.warnings
        warnings += tuple(f"job.launch: {text}." for text in texts)
    if machine.hb_domain_size > int(rack["gpus"]):
        larger = f"HB domains of {machine.hb_domain_size:,} GPUs are larger than {rack.name}, of {int(rack['gpus'])}"
        warnings = (*warnings, f"{larger}: the price and power of what joins its servers are not counted.")
    runs = spec_runs(spec, model, runtime, batch)
    books = (prices, powers)
    return Case(spec, model, machine, runtime, float(tokens), batch, radix, *books, rack, strategy, warnings, *runs)


def _measured_warnings(spec: Spec, gpu: str, platform: str) -> tuple[str, ...]:
    """What is odd about rows of cluster.measured. Raises ValueError where none is of the platform's GPU."""
    named, file = {row.name for row in spec.own_rows}, (spec.cluster.measured or {})["file"]
    others = sorted(named - {gpu})
    if gpu not in named:
        raise ValueError(
            f"cluster.measured: {file} has rows of {' and '.join(others)}, and {platform} has {gpu}: "
            "measure that GPU, or leave it out"
        )
    return (f"{file} has rows of {' and '.join(others)} too, which change nothing.",) if others else ()


class _Blamed:
    """Puts a dotted key before the message of a ValueError."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError | TypeError):
            raise ValueError(f"{self.key}: {error}") from None


def _launched(spec: Spec, given: Transformer | None, rack_gpus: int) -> MegatronRun | None:
    """What job.launch starts. given: the model beside it, whose tokens are those that the line does not say."""
    job = spec.job
    if job.launch is None:
        return None
    if (gpus := _gpus(spec, rack_gpus)) is None:
        raise ValueError("job.launch needs a number of GPUs: give cluster.gpus or cluster.racks")
    if not job.launch.strip():
        raise ValueError("job.launch is empty: give a line such as --tensor-model-parallel-size 8 ..., or leave it out")
    with _Blamed("job.launch"):
        return megatron_run(job.launch, gpus, given.vocabulary if given else None)


def _gpus(spec: Spec, rack_gpus: int) -> int | None:
    """GPUs that are asked for; None where a budget, a power or a goal decides."""
    return spec.cluster.gpus or (spec.cluster.racks * rack_gpus if spec.cluster.racks else None)


def _model(job: JobSpec, model: Transformer | None, run: MegatronRun | None) -> tuple[Transformer, tuple[str, ...]]:
    """The model of a job, given or of its launch line, and what is odd. Raises ValueError where both differ."""
    if model is None:
        line = run.model if run else None
        if line is None:
            raise ValueError(f"job.launch: {'; '.join(run.warnings) if run else 'no line'}: give job.model too")
        if job.sequence_length not in (None, line.sequence_length):
            raise ValueError(
                f"job.sequence_length is {job.sequence_length}, --seq-length of job.launch {line.sequence_length}: "
                "leave one out"
            )
        return line, ()
    key = "job.model" if job.config is None else "job.config"
    if run and run.missing:
        raise ValueError(f"job.launch has no {', '.join(run.missing)}: give all sizes, or none and those of {key}")
    if run and run.model:
        if run.model.mtp_layers and not model.mtp_layers:  # a training's choice
            model = replace(model, mtp_layers=run.model.mtp_layers)
        _check_same(run.model, model, key)
    if job.config is None:
        return model, ()
    texts, predicting = [], predicting_layers(job.config)
    if job.sequence_length is None:
        texts.append(
            f"job.config: sequences are of {model.sequence_length:,} tokens, the longest that the model takes: give "
            "job.sequence_length, that of the training."
        )
    if predicting and not model.mtp_layers:
        texts.append(
            f"job.config: {counted(predicting, 'layers')} for further tokens (num_nextn_predict_layers) not modelled."
        )
    return model, tuple(texts)


def _given_model(job: JobSpec) -> Transformer | None:
    """The model of job.model or job.config; None where a launch line says it alone."""
    changes = {} if job.sequence_length is None else {"sequence_length": job.sequence_length}
    if job.config is not None:
        with _Blamed("job.config"):
            return Transformer.from_config(job.config, **changes)
    if job.model is None:
        return None
    with _Blamed("job.model"):
        if isinstance(job.model, str):
            return catalog_model(job.model, **changes)
        if changes and job.model.get("sequence_length", job.sequence_length) != job.sequence_length:
            raise ValueError(f"sequence_length is {job.model['sequence_length']}, and another in job: leave one out")
        return _own_model({**job.model, **changes})


def _check_same(line: Transformer, model: Transformer, key: str) -> None:
    """Raises ValueError naming every size in which a launch line's model is another than that of a key."""
    no_dense = line.mixture_layers == line.layers and model.mixture_layers == model.layers
    unused = ("ffn_hidden",) if no_dense else () if line.experts or model.experts else ("expert_hidden",)
    faults = []
    for size in fields(Transformer):
        of_line, of_model = getattr(line, size.name), getattr(model, size.name)
        # Megatron-LM's window may count the token itself apart.
        near = 1 if size.name == "window" and line.window and model.window else 0
        if size.name not in (*_NO_SIZES, *unused) and abs(of_line - of_model) > near:
            faults.append(f"{size.name} is {of_line} in the line and {of_model} in {key}")
    if faults:
        raise ValueError(f"job.launch: {'; '.join(faults)}: give the same, or leave {key} out")


def _own_model(sizes: Mapping[str, Any]) -> Transformer:
    names = [size.name for size in fields(Transformer)]
    needed = [size.name for size in fields(Transformer) if size.default is MISSING and size.default_factory is MISSING]
    missing = [name for name in needed if name not in ("name", *sizes)]
    if missing and {*sizes} <= {*names}:  # a wrong name is told first, by Transformer
        gated = " (3 for a gated feed-forward, SwiGLU, else 2)" if "ffn_matrices" in missing else ""
        raise ValueError(f"{', '.join(missing)} missing: give these sizes too{gated}")
    return Transformer(**{"name": "own model", **sizes})


def _own_mapping(spec: Spec, rack_gpus: int, batch: float | int) -> tuple[Strategy, int] | None:
    """The strategy of job.mapping with its batch [sequences]; without data it takes all GPUs."""
    if spec.job.mapping is None:
        return None
    asked = _gpus(spec, rack_gpus)
    gpus = math.ceil(asked / rack_gpus) * rack_gpus if asked else None
    with _Blamed("job.mapping"):
        mapping = dict(spec.job.mapping)
        sequences = mapping.pop("global_batch", None)
        if "data" not in mapping:
            replica = Strategy(**{name: mapping[name] for name in _OF_REPLICA if name in mapping}).gpus
            if gpus is None or gpus % replica:
                why = f"{gpus:,} GPUs are no multiple of" if gpus else "the cluster has no number of GPUs beside"
                raise ValueError(f"data is missing, and {why} tensor x context x pipeline = {replica}: give data")
            mapping["data"] = gpus // replica
        strategy = Strategy(**mapping)
        if gpus and strategy.gpus > gpus:
            raise ValueError(f"it takes {strategy.gpus:,} GPUs of {gpus:,}: give one of fewer")
        if sequences is None:
            step = strategy.data * strategy.micro_batch
            sequences = batch if isinstance(batch, int) else max(round(batch / step), 1) * step
        strategy.microbatches(sequences)
    return strategy, int(sequences)


def _batch(spec: Spec, model: Transformer, row: catalog.Item | None) -> float | int:
    """Sequences of an iteration: an int is taken as it is, a float may be rounded. row: the model in the catalog."""
    asked = spec.job.batch
    if isinstance(asked, int):
        return asked
    if asked is None:
        if row is None or "batch" not in row:
            raise ValueError(f'job.batch is missing, and the catalog has none of {model.name}: give it, "4M tokens"')
        usual, length = row.row("batch"), row["sequence_length"]
        if usual.unit != "tokens" and model.sequence_length == length:
            return int(usual.value)
        tokens = usual.value * (1 if usual.unit == "tokens" else length)
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
