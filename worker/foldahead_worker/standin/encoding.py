"""The judge's look at what can be written down at all: UTF-8, JSON numbers, objects of our own making."""

from __future__ import annotations

import json
import math

from foldahead_worker.standin.fault import Fault, as_list, as_object


def encoding_faults(value: object) -> list[Fault]:
    """Finds what cannot cross the wire: lone surrogates, NaN, values that are no JSON.

    Walks only when the whole does not encode; an unnameable depth is one fault by itself.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        return [Fault("", "the request is nested too deeply")]
    except (TypeError, ValueError):
        return _walk(value, "")
    return []


def _walk(value: object, path: str) -> list[Fault]:
    if isinstance(value, str):
        return _text_faults(value, path)
    if isinstance(value, float) and not math.isfinite(value):
        return [Fault(path, f"{value} is no JSON number")]
    if value is None or isinstance(value, bool | int | float):
        return []
    members = as_object(value)
    if members is not None:
        found: list[Fault] = []
        for name, member in members.items():
            place = f"{path}.{name}" if path else name
            found.extend(_text_faults(name, path) or _walk(member, place))
        return found
    items = as_list(value)
    if items is not None:
        return [fault for at, item in enumerate(items) for fault in _walk(item, f"{path}[{at}]")]
    return [Fault(path, f"{type(value).__name__} is no JSON value")]


def _text_faults(text: str, path: str) -> list[Fault]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return [Fault(path, f"not valid UTF-8: lone surrogate at character {error.start}")]
    return []
