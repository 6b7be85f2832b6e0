"""How long hypothesis looks: `ci` in the suite, `soak` for minutes (`make soak`), `probe` without shrinking.

All are random; a failure prints the blob that brings it back.
"""

from hypothesis import HealthCheck, Phase, settings

_ALLOWED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
_CI = settings(max_examples=60, stateful_step_count=30, deadline=None, print_blob=True, suppress_health_check=_ALLOWED)

settings.register_profile("ci", _CI)
settings.register_profile("soak", _CI, max_examples=400, stateful_step_count=50)
settings.register_profile("probe", _CI, max_examples=300, phases=(Phase.generate,))
settings.load_profile("ci")
