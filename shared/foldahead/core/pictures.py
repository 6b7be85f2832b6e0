"""The size of a picture in pixels, read from the first bytes of its encoding."""

import base64
import binascii
import struct

_HEADER_CHARS = 88_000
"""Base64 that is looked at: a JPEG may carry a 64 KiB preview before its frame header."""


def picture_size(encoded: str) -> tuple[int, int]:
    """Width and height of a base64 picture (PNG, GIF, WebP, JPEG); (0, 0) when its header cannot be read."""
    head = encoded[:_HEADER_CHARS]
    try:
        data = base64.b64decode(head[: len(head) - len(head) % 4])
    except (binascii.Error, ValueError):
        return (0, 0)
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack(">II", data[16:24])
        if data.startswith(b"GIF8"):
            return struct.unpack("<HH", data[6:10])
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp_size(data)
        if data.startswith(b"\xff\xd8"):
            return _jpeg_size(data)
    except (struct.error, IndexError):
        pass
    return (0, 0)


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return (0, 0)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return (0, 0)
