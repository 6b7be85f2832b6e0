"""The stand-in's price list and foldahead's are written down apart: they agree."""

import pytest

from foldahead.core.models import MODELS
from foldahead_worker.standin.billing import Usage
from foldahead_worker.standin.models import find_model
from foldahead_worker.standin.prices import bill

USAGES = (
    Usage(input_tokens=1_000, output_tokens=300),
    Usage(input_tokens=7, cache_read_input_tokens=50_000, cache_creation_input_tokens=11, output_tokens=1),
    Usage(input_tokens=100_001, output_tokens=1),
    Usage(input_tokens=1, cache_read_input_tokens=100_000, output_tokens=2_000),
)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_both_price_lists_say_the_same_of_a_call(name: str) -> None:
    served = find_model(name)
    assert served is not None
    for usage in USAGES:
        price = MODELS[name].price_at(usage.prompt_tokens)
        billed = bill(served, usage)
        if price is None or billed is None:
            continue
        assert billed == price.picodollars(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_input_tokens,
            cache_write_tokens=usage.cache_creation_input_tokens,
        )


def test_the_default_summariser_has_a_price_in_both_bands_and_an_unlisted_model_none() -> None:
    haiku, unlisted = find_model("claude-haiku-5-5"), find_model("claude-mythos-preview")
    assert haiku is not None
    assert unlisted is not None
    assert bill(haiku, Usage(input_tokens=1_000_000)) == 500_000_000_000
    assert bill(haiku, Usage(input_tokens=100_000)) == 10_000_000_000
    assert bill(unlisted, Usage(input_tokens=1)) is None
