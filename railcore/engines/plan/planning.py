"""From a spec to a plan."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railcore.engines.plan.answer import Answer, Designs, answer_of, racks_of, with_energy
from railcore.engines.plan.candidates import Candidate, network_candidates
from railcore.engines.plan.case import Case, case_of
from railcore.engines.plan.choice import merged, ranked
from railcore.engines.plan.page import page_html
from railcore.engines.plan.report import document, terminal_text
from railcore.engines.plan.result import Plan, Progress, Told, found_answer, site_prices
from railcore.engines.plan.spec import FindSpec, Spec, read_spec

_TOLD = Told(document, terminal_text, page_html)


def plan(spec: Spec | Mapping[str, Any] | str | Path, progress: Progress | None = None) -> Plan:
    """What every model says of one cluster and its job, on one basis.

    Parameters
    ----------
    spec
        A TOML file, its text, or a dictionary of the same form; `railcore plan --init` writes one with comments.
    progress
        Called with a text before what may take more than a second.

    Returns
    -------
    A `Plan`: print it, or take its tables.

    Raises
    ------
    ValueError
        For a spec with faults: all of them, by dotted key.
    """
    read = read_spec(spec)
    case = case_of(read)
    built = {candidate.name: candidate for candidate in network_candidates(case)}
    designs, answers = Designs(case), []
    say = progress or (lambda text: None)
    for candidate in built.values():
        say(candidate.name)
        answers.append(_answer(read, case, candidate, designs))
    first = ranked([with_energy(case, answer, site_prices(read, None)) for answer in answers], read)[0]
    site = None
    if read.site is not None and first.numbers:
        from railcore.engines.plan.site import site_of  # only where there is one: it takes a third of a second

        say("places for the power")
        site = site_of(read.site, first.numbers["power_w"])
    prices = site_prices(read, site)
    found = merged([with_energy(case, answer, prices) for answer in answers])
    return Plan(read, case, tuple(ranked(found, read)), site, built, _TOLD, progress)


def _answer(spec: Spec, case: Case, candidate: Candidate, designs: Designs) -> Answer:
    """The answer of one candidate, of as many racks as are asked for or found."""
    asked = spec.cluster
    if spec.find is not None:
        return found_answer(spec, spec.find, case, candidate, designs)
    try:
        most = racks_of(case, candidate)
        if (asked.budget is None and asked.power is None) or asked.use == "all":
            return answer_of(case, candidate, designs, most)
    except ValueError as error:
        return Answer(candidate.name, note=str(error))
    return found_answer(spec, FindSpec(days="fewest"), case, candidate, designs)  # buys no idle racks
