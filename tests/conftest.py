"""Hypothesis profiles, chosen by HEADWATER_HYPOTHESIS: dev (quick), ci (the default), nightly (thorough)."""

import os

from hypothesis import HealthCheck, settings

# `ci` tries the same examples every time, so that a change lands or fails for what it is; `nightly` tries new ones.
# No deadlines and no complaint about slow generation: how busy the machine is, is not a property of the code.
settings.register_profile(
    "ci",
    derandomize=True,
    print_blob=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=20, derandomize=False)
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=5000, derandomize=False)
settings.load_profile(os.environ.get("HEADWATER_HYPOTHESIS", "ci"))
