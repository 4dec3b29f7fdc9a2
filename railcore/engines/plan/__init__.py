"""One cluster and job in, every model's answer out: a spec, candidates, the answer of each, how sure it is, a page.

It holds no formula: each number is what the model gives when it is asked alone.
"""

from railcore.engines.plan.evidence import support
from railcore.engines.plan.planning import plan
from railcore.engines.plan.result import Plan
from railcore.engines.plan.spec import Spec, read_spec
