"""Secrets of known formats go, ordinary code stays."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldahead.core.redact import redact
from foldahead.core.text.secret_formats import SECRET
from foldahead.core.text.secret_places import places

# Put together at run time, so that no scanner takes this file for a leak.
SECRETS = (
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX", "wJalr"),
    ("postgres://svc:hunter2pass@db.example.com/x", "hunter2"),
    ("redis://:s3cr3tpw@host:6379", "s3cr3tpw"),
    ("password=hunter2", "hunter2"),
    ("password = hunter2", "hunter2"),
    ("passwd: s3cr3t!", "s3cr3t"),
    ('"password": "swordfish"', "swordfish"),
    ("{'password': 'a b c'}", "a b c"),
    ('\\"password\\": \\"swordfish\\"', "swordfish"),
    ("DB_PASSWORD=letmein", "letmein"),
    ("db_pass=letmein1", "letmein1"),
    ("export TOKEN=abcdefgh", "abcdefgh"),
    ("mysql -u root -pletmein db", "letmein"),
    ("tool --password hunter --db x", "hunter"),
    ("tool --password=hunter", "hunter"),
    ("tool --api-key abcdefgh1234", "abcdefgh"),
    ('curl -H "Authorization: Bearer abc.def-123456"', "abc.def"),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNl"),
    ("curl -u admin:hunter2 http://x", "hunter2"),
    ('api_key = "abcd1234efgh"', "abcd1234"),
    ("the password is hunter2, ok", "hunter2"),
    ("machine x login bob password swordfish", "swordfish"),
    ("//registry.example/:_authToken=abc123def456ghi", "abc123"),
    ("<password>swordfish</password>", "swordfish"),
    ("https://h/?user=a&password=bcd1&token=abcdef123456789", "bcd1"),
    ("https://h/?user=a&password=bcd1&token=abcdef123456789", "abcdef12"),
    ("x" + "oxb-1234567890-abcdefghij", None),
    ("gh" + "p_" + "a1" * 18, "a1a1"),
    ("sk-" + "ant-api03-" + "Ab1" * 12, "Ab1"),
    ("AK" + "IA" + "ABCDEFGH12345678", "ABCDEFGH"),
    ("AI" + "za" + "B1c" * 12, "B1c"),
    ("np" + "m_" + "a1B" * 12, "a1B"),
    ("hf" + "_" + "aB1" * 12, "aB1"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi", "eyJzdWI"),
    ("client_secret: 8f14e45fceea167a5a36dedd4bea2543", "8f14"),
    ("X-Api-Key: abcdef1234567890", "abcdef12"),
    ("db.example.com:5432:prod:svc:swordfish", "swordfish"),
    ("ALTER USER x IDENTIFIED BY 'swordfish'", "swordfish"),
    ("AccountName=x;AccountKey=abcd1234abcd1234==;End", "abcd1234"),
    ("密码：hunter2", "hunter2"),
    ("密码是 hunter2", "hunter2"),
    ("パスワードは hunter2 です", "hunter2"),
    ("비밀번호: hunter2", "hunter2"),
    ("пароль: hunter2!", "hunter2"),
    ("La contraseña: hunter2!", "hunter2"),
    ("mot de passe : hunter2!", "hunter2"),
    ("senha: hunter2!", "hunter2"),
    ("password: |\n  hunter2pass\nuser: x", "hunter2"),
    ("docker login -u me -p hunter2 registry.example", "hunter2"),
    ("https://x.blob.example/c?sv=2020&sig=" + "aB3%2F" * 8 + "&se=1", "aB3"),
    ("Cookie: session=abcdef; a=b", "abcdef"),
    ("set-cookie: sid=abcdef0123456789; Path=/; HttpOnly", "abcdef0123"),
    ('curl --cookie "session=abcdef0123456789" https://x', "abcdef0123"),
    ('{"name":"API_KEY","value":"abcd1234efgh5678"}', "abcd1234"),
    ("- name: DB_PASSWORD\n  value: Tr0ub4dor3", "Tr0ub4dor3"),
    ('<add key="ApiKey" value="abcd1234efgh5678"/>', "abcd1234"),
    ("<key>APIKey</key>\n<string>abcd1234efgh5678</string>", "abcd1234"),
    ("define('DB_PASSWORD', 'sw0rd-fish1');", "sw0rd"),
    ('os.Setenv("API_TOKEN", "abcd1234efgh5678")', "abcd1234"),
    ("| password | sw0rdfish1 |", "sw0rdfish1"),
    ("- **Password:** sw0rdfish1", "sw0rdfish1"),
    ("**API key**: `abcd1234efgh5678`", "abcd1234"),
    ("the root password for db1 is hunter22", "hunter22"),
    ("my password's hunter22", "hunter22"),
    ("FERNET_KEY=cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=", "cw_0x689"),
    ('{"auths":{"https://h/v1/":{"auth":"dXNlcjpwYXNzd29yZDEyMw=="}}}', "dXNlcjpw"),
    ('db_pw = "sw0rdfish1"', "sw0rdfish1"),
    ('psk="sw0rdfish1"', "sw0rdfish1"),
    ("PresharedKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=", "yAnz5TF"),
    ("openssl rsa -passin pass:sw0rdfish1 -in x", "sw0rdfish1"),
    ("unzip -P sw0rdfish1 x.zip", "sw0rdfish1"),
    ("7z x -psw0rdfish1 x.7z", "sw0rdfish1"),
    ("ldapsearch -D cn=admin -w sw0rdfish1 -b dc=x", "sw0rdfish1"),
    ("mongosh --username a -p sw0rdfish1 host", "sw0rdfish1"),
    ("ssh-keygen -t ed25519 -N 'sw0rdfish1' -f k", "sw0rdfish1"),
    ("echo 'sw0rdfish1' | sudo -S apt update", "sw0rdfish1"),
    ("echo 'bob:Sw0rdf1sh' | chpasswd", "Sw0rdf1sh"),
    ("requests.get(u, auth=('bob', 'Sw0rdf1sh!'))", "Sw0rdf1sh"),
    ("https://abcd1234efgh5678ijkl9012@github.com/x.git", "abcd1234"),
    ("https://b.s3.example/k?X-Amz-Signature=" + "0123456789abcdef" * 4, "0123456789abcdef"),
    ("https://x.webhook.office.com/webhookb2/0123-abc/IncomingWebhook/abcdef0123456789/u", "abcdef0123"),
    ("mnemonic: " + "able about above absent " * 3, "about above"),
    ("PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\nAAAAIEabcdEFGHijkl1234\nPrivate-MAC: 01", "AAAAIEabcd"),
    ("tv" + "ly-dev-" + "AbC123dEf4" * 3, "AbC123"),
    ("sb" + "_secret_" + "abcdEFGH1234ijkl_MNOP567", "abcdEFGH"),
    ("sk" + "_" + "0123456789abcdef" * 3, "0123456789"),
    ("re" + "_abcdEFGH_1234ijklMNOP5678qrstUVWX", "1234ijkl"),
    ("X-Vault-Token: s." + "abcdEFGH12345678ijklMNOP", "abcdEFGH"),
    ("lösenord: hunter22", "hunter22"),
    ("Şifre: hunter22", "hunter22"),
    ("كلمة المرور: hunter22", "hunter22"),
    ("mật khẩu: hunter22", "hunter22"),
    ("סיסמה: hunter22", "hunter22"),
    ("heslo: hunter22", "hunter22"),
    ("-----BEGIN RSA PRIVATE" + " KEY-----\nMIIabc123/+=\nfoo\n-----END RSA PRIVATE" + " KEY-----", "MIIabc"),
    ("-----BEGIN PRIVATE" + " KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nb3Bl", "b3BlbnNz"),
)

CODE = (
    "password = get_password()",
    "token: str",
    "max_tokens=4096",
    "def f(password: str, token: Optional[str] = None):",
    "self.password = password",
    "user = User(password=password, token=token)",
    "tokens = tokenizer.encode(x)",
    '"input_tokens": 45365',
    'secret_name = "my-secret"',
    'password = os.environ["PASSWORD"]',
    "const token = await getToken();",
    "API_KEY=${API_KEY}",
    "password: <your password>",
    "passwords must be 8 characters",
    "password is required",
    '"password": null',
    'if token == "EOF":',
    "tool --password $PASS",
    "Authorization: Bearer $TOKEN",
    "http://localhost:8080/x@y",
    "git@github.com:a/b.git",
    "sk-circle-fade-dot-animation-long",
    'cache_key = "0123456789abcdef0123456789abcdef"',
    "docker run -u 1000:1000 x",
    "password_hash = bcrypt.hashpw(password)",
    'placeholder="Enter your password"',
    'Password string `json:"password"`',
    "token: TokenKind",
    "PASS: test_foo1_bar",
    "PWD=/Users/dev8/Work",
    "密码是必须的，不能为空",
    "パスワードは必須です",
    "fly login -port 8080 && npm login -p 3000",
    "def f(x, sig=inspect.signature):",
    "password: |",
    '"-----BEGIN PRIVATE' + ' KEY-----" in text',
    "cookie: CookieOptions = {}",
    "const [password, setPassword] = useState('')",
    'hash("password", "sha256")',
    '["password", "address1"]',
    "token, value = x.split('=')",
    '<input name="password" value="">',
    '{"name": "password", "value": "required"}',
    '{"key":"token_count","value":"45365"}',
    "| password | string | required |",
    "| token | 4096 tokens |",
    "cat password | head -1",
    '"auth": "oauth2-proxy"',
    'PRIMARY_KEY = "users_pkey_2024_idx1"',
    "CACHE_KEY = 'user:1234:profile'",
    "docker run mongo:7 -p 8080:80",
    "mongorestore --db x && mkdir -p /tmp/a1",
    "auth=('user', 'pass')",
    "re_match_group_1_and_2_here_ok = 1",
    "signature=compute_hmac_sha256_signature(x)",
    "zip -r out1.zip dir",
    "echo 'hello w0rld' | sudo tee /etc/x",
    "ssh-keygen -t ed25519 -N '' -f k",
    "tests pass: 12/14",
    "self.psk = psk",
    "https://user-name@host/x",
    "<key>TokenCount</key>\n<string>12</string>",
    "curl --cookie cookies.txt",
)


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_of_a_known_format_goes(text: str, secret: str | None) -> None:
    redacted = redact(text)
    assert "[redacted:" in redacted
    assert secret is None or secret not in redacted


@pytest.mark.parametrize("text", CODE)
def test_ordinary_code_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(("text", "_secret"), SECRETS)
def test_what_is_redacted_stays_as_it_is(text: str, _secret: str | None) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(redact(text), str)


PIECES = [part for text, _ in SECRETS for part in re.findall(r"\w+|\W", text)]
ODD = [
    "pa\u017f\u017fword",
    "to\u212aen",
    "ap\u0131 key",
    "S\u0130GN\u0130NG_KEY",
    "api\u00a0key",
    "中文",
    "é",
    "\ud83d",
]


@given(st.lists(st.sampled_from(PIECES + ODD) | st.text(max_size=3), max_size=30).map("".join))
def test_a_secret_is_looked_for_wherever_a_format_matches(text: str) -> None:
    assert {at for at in range(len(text)) if SECRET.match(text, at)} <= set(places(text))


@pytest.mark.parametrize(("text", "_secret"), SECRETS)
def test_each_format_has_a_place_where_it_is_looked_for(text: str, _secret: str | None) -> None:
    assert {at for at in range(len(text)) if SECRET.match(text, at)} <= set(places(text))


def test_a_lone_surrogate_and_a_nul_are_taken() -> None:
    assert redact("\ud83d \x00 password=hunter2") == "\ud83d \x00 password=[redacted:password]"


def test_a_secret_longer_than_what_is_looked_at_goes_whole() -> None:
    assert redact("password=" + "a1B2" * 300) == "password=[redacted:password]"


@pytest.mark.parametrize(
    "piece",
    [
        *("z", "eyJ", "password=", "://a:", "curl -", "-----BEGIN PRIVATE" + " KEY-----", "a_"),
        *(
            "key",
            "pass",
            "M.",
            ":5432",
            "http -u ",
            "://a@",
            "api_key",
            "zip -P ",
            "echo a|sudo ",
            "able ",
            "_KEY,",
            "password |",
        ),
    ],
)
def test_the_time_grows_no_faster_than_the_text(piece: str) -> None:
    def seconds(chars: int) -> float:
        text = piece * (chars // len(piece))
        start = time.process_time()
        redact(text)
        return time.process_time() - start

    assert seconds(160_000) < 10 * seconds(40_000) + 0.2
