"""Redaction judged by a maintained detector (detect-secrets): a planted secret of every kind that it knows.

Values are made here, so that no text that looks like a secret stands in the repository.
"""

import hashlib
import string

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import transient_settings

from foldahead.core.redact import redact

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
NO_SECRET = {"Public IP (ipv4)"}
GUESSED = {"Base64 High Entropy String", "Hex High Entropy String"}
"""Found by entropy alone, whatever they are: no format that a compiled pass could know (design section 6)."""


def made(count: int, alphabet: str = ALNUM, seed: str = "") -> str:
    """So many characters, the same each time, without a word in them."""
    digits = b"".join(hashlib.sha256(f"{seed}{at}".encode()).digest() for at in range(count // 16 + 1))
    return "".join(alphabet[byte % len(alphabet)] for byte in digits[:count])


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + made(43, ALNUM + "-_")
PEM = f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{made(64)}\n{made(64, seed='b')}\n-----END RSA PRIVATE {'KEY'}-----"

PLANTED: dict[str, tuple[str, str]] = {
    # kind: (a line as a tool prints it, what must not be left of it)
    "Artifactory Credentials": ('"apiKey": "{}"', "AKC" + made(60)),
    "AWS Access Key": ("found {} in the log", "AKIA" + made(16, string.ascii_uppercase + "234567")),
    "Azure Storage Account access key": ("AccountName=x;AccountKey={}", made(86) + "=="),
    "Basic Auth Credentials": ("git clone https://deploy:{}@git.example.com/a.git", made(14)),
    "Cloudant Credentials": ('cloudant_password = "{}"', made(64, HEX)),
    "Discord Bot Token": ("logged in with {}", f"M{made(23)}.{made(6)}.{made(27)}"),
    "GitHub Token": ("remote: {}", "ghp_" + made(36)),
    "GitLab Token": ("remote: {}", "glpat-" + made(20)),
    "IBM Cloud IAM Key": ('ibm_cloud_iam_key = "{}"', made(44)),
    "IBM COS HMAC Credentials": ('cos_hmac_secret_access_key = "{}"', made(48, HEX)),
    "JSON Web Token": ("Cookie set: {}", JWT),
    "Secret Keyword": ('db_password = "{}"', made(16)),
    "Mailchimp Access Key": ("mailchimp said {}", made(32, HEX) + "-us12"),
    "NPM tokens": ("//registry.example.org/:_authToken={}", "npm_" + made(36)),
    "OpenAI Token": ("key {} is invalid", f"sk-{made(20)}T3BlbkFJ{made(20)}"),
    "Private Key": ("{}", PEM),
    "PyPI Token": ("uploading with {}", "pypi-AgEIcHlwaS5vcmc" + made(80)),
    "SendGrid API Key": ("sent by {}", f"SG.{made(22)}.{made(43)}"),
    "Slack Token": ("posting as {}", f"xoxb-{made(12, string.digits)}-{made(24)}"),
    "SoftLayer Credentials": ('softlayer_api_key = "{}"', made(64, HEX)),
    "Square OAuth Secret": ("square {}", "sq0csp-" + made(43)),
    "Stripe Access Key": ("charge with {}", "sk_live_" + made(24)),
    "Telegram Bot Token": ("bot {} is up", f"{made(9, '123456789')}:AA{made(33)}"),
    "Twilio API Key": ("twilio {}", "SK" + made(32, HEX)),
}


def kinds_found(text: str) -> set[str]:
    """What the detector finds in a text, line by line."""
    known = get_mapping_from_secret_type_to_class()
    plugins = [{"name": known[kind].__name__} for kind in known if kind not in NO_SECRET | GUESSED]
    with transient_settings({"plugins_used": plugins}):
        return {secret.type for line in text.splitlines() for secret in scan_line(line)}


def test_there_is_a_plant_for_every_kind_that_the_detector_knows() -> None:
    assert PLANTED.keys() == get_mapping_from_secret_type_to_class().keys() - NO_SECRET - GUESSED


@pytest.mark.parametrize("kind", PLANTED)
def test_the_detector_finds_the_plant(kind: str) -> None:
    line, secret = PLANTED[kind]
    assert kind in kinds_found(line.format(secret))


@pytest.mark.parametrize("kind", PLANTED)
def test_the_detector_finds_nothing_after_redaction(kind: str) -> None:
    line, secret = PLANTED[kind]
    redacted = redact(f"before\n{line.format(secret)}\nafter")
    assert secret not in redacted
    assert not kinds_found(redacted) - {"Secret Keyword"}, redacted
    assert "[redacted:" in redacted


@pytest.mark.parametrize("kind", PLANTED)
def test_no_half_of_a_plant_is_left(kind: str) -> None:
    line, secret = PLANTED[kind]
    redacted = redact(line.format(secret))
    longest = max(secret.split("\n"), key=len)
    assert longest[:12] not in redacted or longest[:12].startswith("-----")
    assert longest[-12:] not in redacted
