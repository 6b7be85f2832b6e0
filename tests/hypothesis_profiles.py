"""How long hypothesis looks: `ci` in the suite, `soak` for minutes (`make soak`). Both random; a failure prints its blob."""

from hypothesis import HealthCheck, settings

_ALLOWED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile(
    "ci",
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=_ALLOWED,
)
settings.register_profile("soak", settings.get_profile("ci"), max_examples=4_000, stateful_step_count=60)
from hypothesis import Phase
settings.register_profile("probe", settings.get_profile("ci"), max_examples=300, phases=(Phase.generate,))
settings.load_profile("ci")
