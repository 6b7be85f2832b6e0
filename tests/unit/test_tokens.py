"""The estimate: script-aware, pictures by their pixels, and encoded files never as text."""

import base64
import struct

import pytest

from foldahead.core.dialects import get_dialect
from foldahead.core.messages import Call, Document, Message, Other, Picture, Result, Text, Thinking
from foldahead.core.pictures import picture_size
from foldahead.core.tokens import UNKNOWN_PICTURE_TOKENS, estimate, estimate_block, estimate_text
from tests.histories import user


def encoded(data: bytes) -> str:
    return base64.b64encode(data + b"\0" * 60).decode()


PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 800, 600)
GIF = b"GIF89a" + struct.pack("<HH", 320, 200)
JPEG = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"\0" * 14 + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 480, 640)
PREVIEWED = b"\xff\xd8\xff\xe1" + struct.pack(">H", 60_000) + b"\0" * 59_998 + JPEG[20:]
VP8X = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (1_023).to_bytes(3, "little") + (767).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"\x2f" + (99 | 49 << 14).to_bytes(4, "little")
VP8 = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + struct.pack("<HH", 176, 144)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (800, 600)),
        (GIF, (320, 200)),
        (JPEG, (640, 480)),
        (PREVIEWED, (640, 480)),
        (VP8X, (1_024, 768)),
        (VP8L, (100, 50)),
        (VP8, (176, 144)),
        (b"BM not one of them", (0, 0)),
        (b"\x89PNG\r\n\x1a\n", (0, 0)),
    ],
    ids=["png", "gif", "jpeg", "jpeg behind a preview", "webp", "lossless webp", "lossy webp", "bmp", "cut off"],
)
def test_a_pictures_size_is_read_from_its_header(data: bytes, size: tuple[int, int]) -> None:
    found = picture_size(encoded(data))
    assert found == size


@pytest.mark.parametrize("broken", ["", "%%%%", "iVBORw0KGgo", "é" * 40])
def test_what_is_no_base64_has_no_size(broken: str) -> None:
    assert picture_size(broken) == (0, 0)


def test_latin_text_is_three_and_a_half_bytes_a_token() -> None:
    assert estimate_text("x" * 3_500) == 1_000
    assert estimate_text("") == 0
    assert estimate_text("\u043f\u0440\u0438\u0432\u0435\u0442" * 100) == pytest.approx(343, abs=5)


def test_chinese_japanese_and_korean_are_about_a_token_a_character() -> None:
    for text in ("\u4e2d\u6587" * 500, "\u304b\u306a" * 500, "\ud55c\uae00" * 500):
        assert 900 <= estimate_text(text) <= 1_300


def test_half_an_emoji_is_counted_and_does_not_crash() -> None:
    assert estimate_text("\ud83d" * 10) > 0


def test_a_picture_counts_by_its_pixels_up_to_what_a_provider_scales_it_to() -> None:
    assert estimate_block(Picture(b"", 9, "image/png", 750, 1_000)) == 1_001
    assert estimate_block(Picture(b"", 9, "image/png", 20_000, 20_000)) == 6_400


def test_a_picture_whose_header_cannot_be_read_counts_1600() -> None:
    assert estimate_block(Picture(b"", 3_000_000, "image/png")) == UNKNOWN_PICTURE_TOKENS == 1_600


def test_three_megabytes_of_picture_are_no_million_tokens() -> None:
    big = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 3_000_000}}
    assert estimate(get_dialect("anthropic").read(user(big), 0)) < 2_000


def test_documents_count_by_text_or_pages() -> None:
    assert estimate_block(Document(b"", 0, "text/plain", text="x" * 350)) == 100
    assert estimate_block(Document(b"", 0, "application/pdf", pages=3)) == 6_000
    assert estimate_block(Document(b"", 0, "application/pdf")) == 2_000


def test_calls_results_and_unknown_blocks_are_counted() -> None:
    assert estimate_block(Call("1", "ls", {"path": "x" * 350})) > 100
    assert estimate_block(Result("1", (Text("x" * 350),))) > 100
    assert estimate_block(Other("new", {"say": "x" * 350 + " "})) > 100


def test_an_encoded_file_in_an_unknown_block_is_never_text() -> None:
    assert estimate_block(Other("input_audio", {"data": "QUJD" * 50_000, "format": "wav"})) < 2_000


def test_sealed_thinking_counts_by_its_bytes() -> None:
    assert estimate_block(Thinking("", "A" * 1_400, redacted=True)) == 300
    assert estimate_block(Thinking("x" * 350, "A" * 1_400)) == 100


def test_a_message_costs_a_little_by_itself() -> None:
    assert estimate(Message("user", ())) == 4
