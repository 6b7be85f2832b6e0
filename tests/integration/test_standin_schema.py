"""The judge's table of fields, held against the typed dictionaries of the real SDK."""

from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import beta
from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from anthropic.types.beta.message_create_params import MessageCreateParamsBase

from foldahead_worker.standin import schema

BLOCK_TYPES: dict[str, Any] = {
    get_args(get_type_hints(kind)["type"])[0]: kind
    for kind in (
        *get_args(BetaContentBlockParam),
        beta.BetaToolReferenceBlockParam,
        beta.BetaBrowserStateBlockParam,
    )
    if hasattr(kind, "__required_keys__")
}


def shape_of(kind: Any) -> schema.Shape:
    hints = get_type_hints(kind)
    spelled = get_type_hints(kind, include_extras=True)
    return schema.Shape(
        required=frozenset(name for name in hints if "Required" in str(spelled[name])),
        allowed=frozenset(hints),
        nullable=frozenset(name for name, hint in hints.items() if type(None) in get_args(hint)),
    )


def test_the_judge_knows_every_block_type_of_the_sdk():
    assert BLOCK_TYPES.keys() == schema.BLOCKS.keys() | schema.NESTED_BLOCKS.keys()


@pytest.mark.parametrize("name", sorted(BLOCK_TYPES))
def test_a_block_has_the_fields_that_the_sdk_gives_it(name):
    assert (schema.BLOCKS | schema.NESTED_BLOCKS)[name] == shape_of(BLOCK_TYPES[name])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (schema.MESSAGES["user"], beta.BetaUserMessageParam),
        (schema.MESSAGES["assistant"], beta.BetaAssistantMessageParam),
        (schema.MESSAGES["system"], beta.BetaSystemMessageParam),
        (schema.TOOL, beta.BetaToolParam),
        (schema.CACHE_CONTROL, beta.BetaCacheControlEphemeralParam),
        (schema.COMPACTION, beta.BetaCompactionConfigParam),
        (schema.THINKING_CONFIGS["enabled"], beta.BetaThinkingConfigEnabledParam),
        (schema.THINKING_CONFIGS["adaptive"], beta.BetaThinkingConfigAdaptiveParam),
        (schema.THINKING_CONFIGS["disabled"], beta.BetaThinkingConfigDisabledParam),
        (schema.THINKING_CONFIGS["between_tools"], beta.BetaThinkingConfigBetweenToolsParam),
    ],
)
def test_another_object_has_the_fields_that_the_sdk_gives_it(ours, theirs):
    assert ours == shape_of(theirs)


def test_a_request_has_the_parameters_of_the_sdk_and_those_it_no_longer_types():
    theirs = shape_of(MessageCreateParamsBase)
    headers = {"betas", "user_profile_id", "workspace_id"}
    ours = schema.parameters("message")
    assert ours.allowed == theirs.allowed - headers | {"stream", "temperature", "top_k", "top_p"}
    assert ours.required == theirs.required
    assert ours.nullable == theirs.nullable
