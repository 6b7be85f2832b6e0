"""The formats in which secrets are written, as ONE compiled expression.

Every alternative is anchored on something rare (a token's own prefix, a keyword, `://`, a header), never on a
run of word characters, and every repetition is bounded or possessive: the scan is linear in the text whatever
the text is. Groups: `token` and `webhook` are secrets by themselves, `block` is a private key; what stands in
another group is judged by `redact`, since `password = ask()` is code and no secret.

`secret_places` knows where each of them can begin: a format that is added here is added there.
"""

import re

SHORTEST_TOKEN_CHARS = 15
"""Of `_PREFIXED`, counted from its beginning as far as letters, digits, dashes, dots and `=` go; three kinds that have
others early on have an anchor of their own in `secret_places`."""
# Tokens that carry their maker's prefix (sources: the makers' documentation of their token formats).
_PREFIXED = "|".join(
    (
        r"gh[pousr]_[A-Za-z0-9]{20,255}+",
        r"github_pat_\w{22,255}+",
        r"gl(?:pat|ptt|dt|rt|cbt|ft|soat|imt|agent|oas|ffct)-[\w.\-]{16,255}+",
        r"xox[a-eoprs]-[\w\-]{10,255}+",
        r"xapp-[\w\-]{20,255}+",
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,255}+",
        r"whsec_[\w+/=]{16,255}+",
        r"sk-(?:ant|proj|svcacct|admin|or|lf)-[\w\-]{16,512}+",
        r"sk-[A-Za-z0-9]{20,255}+",
        r"AIza[\w\-]{30,64}+",
        r"ya29\.[\w\-.]{20,2048}+",
        r"GOCSPX-[\w\-]{20,64}+",
        r"1//0[\w\-]{30,255}+",
        r"SK[0-9a-f]{32}(?!\w)",
        r"AC[0-9a-f]{32}(?!\w)",
        r"SG\.[\w\-]{16,64}+\.[\w\-]{16,128}+",
        r"npm_[A-Za-z0-9]{30,64}+",
        r"pypi-[\w\-]{20,512}+",
        r"(?:hf|r8|gsk|fw|tvly)_[A-Za-z0-9]{24,128}+",
        r"(?:xai|pplx|nvapi|csk|dop_v1|doo_v1|dor_v1|shpat|shpca|shppa|shpss|sbp|pscale_tkn"
        r"|pscale_pw)[_\-][\w\-.]{24,255}+",
        r"(?:lin_api|ntn|figd|dckr_pat|dckr_oat|sntrys|sntryu|glsa|glc|rubygems|secret|ATATT3\w"
        r"|ATCTT3\w)_?[A-Za-z0-9_\-=]{32,512}+",
        r"(?:PMAK|NRAK|HRKU|AGE-SECRET-KEY|dapi|key|sq0atp|sq0csp)-?[A-Za-z0-9\-]{30,255}+",
        r"(?:hvs|hvb|dp\.pt|dp\.st)\.[\w\-.]{20,255}+",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"eyJ[\w\-]{10,}+\.[\w\-]{8,}+\.[\w\-]*+",  # a JSON Web Token
        r"[0-9]{8,10}:AA[\w\-]{32,36}(?![\w\-])",  # a Telegram bot
        r"[0-9a-f]{32}-us[0-9]{1,2}(?!\w)",  # Mailchimp
        r"(?:phx|rpa|vcp|nfp|rnd|pcsk|jina|e2b)_[A-Za-z0-9]{24,255}+",
        r"(?:tvly-(?:dev-|prod-)?|pul-|re_[A-Za-z0-9]{6,10}_)[A-Za-z0-9]{20,255}+",
        r"(?:tgp_v1|lsv2_pt|lsv2_sk|sb_secret|tskey-(?:auth|api|client))[_\-][\w\-]{20,255}+",
        r"sk_[0-9a-f]{40,64}(?!\w)",
        r"fc-[0-9a-f]{32}(?!\w)",
        r"BSA[A-Za-z0-9]{24,32}(?![\w\-])",  # Brave Search
        r"s\.[A-Za-z0-9]{24}(?!\w)",  # Vault, before its prefixes grew
        r"[MNO][\w\-]{23,25}\.[\w\-]{6}\.[\w\-]{27,38}(?![\w\-])",  # a Discord bot
    )
)
_WEBHOOK = (
    r"hooks\.slack\.com/(?:services|workflows)/[\w/]{10,200}+"
    r"|webhook\.office\.com/webhookb2/[\w@/\-]{20,400}+"
    r"|discord(?:app)?\.com/api/webhooks/[\w/\-]{20,200}+"
)

# Possessive, and it stops before the next five dashes: linear even when no END ever comes.
_BLOCK = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^\-]|-(?!----))*+(?:-----END [A-Z0-9 ]{0,60}-----)?"
)

_URL = r"://(?:(?P<user>[^\s:/@\"'<>`]{0,128}+):(?P<url>[^\s/\"'<>`]{1,256})|(?P<urltoken>[\w\-]{20,255}+))@"
_COOKIE_FLAG = r"(?<= )--cookie[ =][\"']?(?P<cookieflag>[\w.\-]{1,128}+=[^\s\"']{6,4096}+)"

_HEADER = (
    r"(?=[AaBbCcPpSs])(?:(?i:Authorization|Proxy-Authorization)\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"']?"
    r"(?:(?P<scheme>(?i:Bearer|Basic|Token|Digest|ApiKey|Negotiate"
    r"|AWS4-HMAC-SHA256))\s{1,4})?(?P<header>[^\s\"'`\\,;<>]{4,4096}+)"
    r"|(?i:Bearer)\s{1,4}(?P<bearer>[\w.~+/=\-]{12,4096}+)"
    r"|(?i:(?:Set-)?Cookie):\s{0,4}(?P<cookie>[\w.\-]{1,128}+=[^\r\n\"'`]{2,4096}+))"
)

_FLAG = (
    r"(?:curl|wget|http|https)\b[^\r\n|;&]{0,200}?\s(?:-u"
    r"|--user)[ =]{0,1}[\"']?(?P<login>[^\s:\"']{1,128}+:[^\s\"']{1,256}+)"
    r"|(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump)\b[^\r\n"
    r"|;&]{0,200}?\s-p(?P<mysql>[^\s\"']{1,128}+|\"[^\"\r\n]{1,128}\"|'[^'\r\n]{1,128}')"
    r"|sshpass\s+-p\s{0,4}(?P<sshpass>[^\s]{1,128}+)"
    r"|redis-cli\b[^\r\n|;&]{0,120}?\s(?:-a|--pass)\s+(?P<redis>[^\s]{1,128}+)"
    r"|\blogin\s{1,8}\S{1,128}+\s{1,8}password\s{1,8}(?P<netrc>\S{1,256}+)"
    r"|\blogin\b[^\r\n|;&]{0,200}?\s-p[ =](?P<login_p>[^\s\"'\-][^\s\"']{0,128}+)"
    r"|(?i:sig|signature|x-amz-signature)=(?P<sas>[\w%+/=\-]{20,512}+)"
    r"|mongo(?:sh|dump|restore|export|import)?\b[^\r\n|;&]{0,200}? -p[ =]?(?P<mongo>[^\s\"'\-=][^\s\"']{0,128}+)"
    r"|ldap(?:search|add|modify|delete|passwd|whoami)\b[^\r\n|;&]{0,200}? -w ?(?P<ldap>\"[^\"\r\n]{1,128}\""
    r"|'[^'\r\n]{1,128}'|[^\s\"'\-][^\s\"']{0,128}+)"
    r"|(?:un)?zip\b[^\r\n|;&]{0,200}? -P ?(?P<zip>\"[^\"\r\n]{1,128}\"|'[^'\r\n]{1,128}'|[^\s\"'\-][^\s\"']{0,128}+)"
    r"|7z[ar]?\b[^\r\n|;&]{0,200}? -p(?P<sevenzip>\"[^\"\r\n]{1,128}\"|'[^'\r\n]{1,128}'|[^\s\"'\-][^\s\"']{2,128}+)"
    r"|ssh-keygen\b[^\r\n|;&]{0,200}? -N ?(?P<keygen>\"[^\"\r\n]{1,128}\"|'[^'\r\n]{1,128}'"
    r"|[^\s\"'\-][^\s\"']{0,128}+)"
    r"|echo\s{1,4}(?P<sudo>\"[^\"\r\n]{1,128}\"|'[^'\r\n]{1,128}'|[^\s\"'\-|][^\s\"'|]{0,128}+)\s{0,4}\|\s{0,4}sudo\s[^|\r\n]{0,40}?-S\b"
    r"|echo\s{1,4}[\"']?[\w.\-]{1,64}+:(?P<chpasswd>[^\s\"'|]{1,128}+)[\"']?\s{0,4}\|\s{0,4}(?:sudo\s{1,4})?chpasswd\b"
    r"|auth=\(\s{0,4}[\"'][^\"'\r\n]{1,128}[\"'],\s{0,4}(?P<authpair>[\"'][^\"'\r\n]{1,128}[\"'])\s{0,4}\)"
    r"|(?i:seed phrase|mnemonic)(?:\s{1,3}is)?\W{1,6}"
    r"(?P<words>(?:[a-z]{3,8}\s{1,2}){11,23}[a-z]{3,8})\b"
    r"|Private-Lines:\s[0-9]{1,3}\s{1,2}(?P<putty>[A-Za-z0-9+/=\r\n]{16,8192}+)"
    r"|(?:requirepass|masterauth)\s{1,8}(?P<redisconf>\S{1,256}+)"
    r"|(?i:IDENTIFIED\s{1,4}BY)\s{1,4}(?P<sql>'[^'\r\n]{1,256}'|\"[^\"\r\n]{1,256}\")"
    r"|^[\w.*\-]{1,128}+:(?:[0-9]{4,5}|\*):[^:\s]{1,64}+:[^:\s]{1,64}+:(?P<pgpass>[^:\s]{1,256}+)$"
)

# `key` is the word that names the value, `rest` what its name goes on with (`_access_key`, `Hash`, `s`).
_KEY = (
    r"(?P<key>[Pp](?i:assword|asswd|assphrase|asscode|asswort|wd)|(?<=_)pass(?=[\"']?\s{0,3}[:=])"
    r"|(?<=--)pass(?=[ =])|PASS(?=\s{0,3}=)"
    r"|(?<=_)PASS(?=[\"']?\s{0,3}:)|[Ss](?i:ecret)|[Tt](?i:oken)"
    r"|[Aa](?i:pi[_\-\s]?key|ccess[_\-]?key|uth[_\-]?key|ccount[_\-]?key|pp[_\-]?key)"
    r"|(?<=-passin )pass(?=:)|(?<=-passout )pass(?=:)|(?<=-pass )pass(?=:)"
    r"|(?<=[\"'])auth(?=[\"']\s{0,3}:\s{0,3}[\"'][A-Za-z0-9+/=]{16})"
    r"|(?<=_)(?i:pw)(?=[\"']?\s{0,3}[:=])|(?<=[A-Z]_)KEY(?=[\"'`]?\s{0,3}[:=,])|psk(?=[\"']?\s{0,3}[:=])"
    r"|[Pp](?i:re[_\-]?shared[_\-]?key|arola(?=\s{0,3}[:=])|assord(?=\s{0,3}[:=]))"
    r"|[Mm](?i:ật khẩu)|[Ll](?i:ösenord)|[Hh](?i:eslo(?=\s{0,3}[:=]))"
    r"|[Jj](?i:elszó)|[Şş](?i:ifre)|[Κκ](?i:ωδικός)|كلمة (?:المرور|السر)|رمز عبور|סיסמ[אה]"
    r"|รหัสผ่าน|पासवर्ड"
    r"|[Cc](?i:ontrase[ñn]a)|[Ss](?i:enha)(?=\s{0,3}[:=])|[Mm](?i:ot de passe)|[Kk](?i:ennwort)|[Ww](?i:achtwoord)"
    r"|[Hh](?i:asło)|[Пп](?i:ароль)|비밀번호"
    r"|_auth(?=\s{0,3}=)|[Pp](?i:rivate[_\-]?key)|[Ee](?i:ncryption[_\-]?key)|[Ss](?i:igning[_\-]?key"
    r"|hared[_\-]?access[_\-]?signature)"
    r"|[Mm](?i:aster[_\-]?key)|_(?i:iam[_\-]?key)|密码|密碼|口令|パスワード|密钥)"
)
_NAMED = (
    _KEY
    + r"(?P<rest>(?:(?![是为為は는은])[\w\-]){0,40}+)\]?\\?[\"'`]?"
    # What parts name and value: a word in between (`"name": "API_KEY", "value": "x"`), a tag, a comma, a row's bar;
    # `=` and its kin, bold or not, and YAML's block marks; a tag's end; "is"; a blank before a quote, or behind a flag.
    + r"(?P<sep>(?:(?<=[\"']),?\s{0,40}|\s{0,8}\n[ \t]{0,40})\\?[\"']?(?i:value)\\?[\"']?\s{0,3}[:=]\s{0,3}"
    + r"|</key>\s{0,40}<string>"
    + r"|(?<=[\"']),\s{0,4}(?=[\"'])"
    + r"|\s{0,40}\|\s{0,3}(?=[^\s|])"
    + r"|\*{0,2}\]?\s{0,8}(?::=|=>|===?|[:=：])\*{0,2}\s{0,8}(?:(?i:is)\s|[|>][\-+]?\s{1,8})?|>"
    + r"|\s{0,2}[是为為は는은]\s{0,2}"
    + r"|(?:'s|[ \t]{1,3}(?i:(?:for|of|on)[ \t]{1,3}\S{1,40}[ \t]{1,3})?(?i:is|was|to|ist))[ \t]{1,3}"
    + r"|[ \t]{1,3}(?=[\"'])"
    + r"|(?:(?<=-key)|(?<=-token)|(?<=-secret)|(?<=-pass)|(?<=-passwd)|(?<=-password))[ \t]{1,3})"
    + r"(?P<named>[bfru]{0,2}(?P<quote>\\?\"\"\"|\\?[\"'`])(?P<quoted>[^\"'`\r\n\\]{0,512}+)"
    + r"|[^\s\"'`]{1,256}+)"
)

SECRET = re.compile(
    rf"(?<![\w\-])(?=\w)(?:(?P<token>{_PREFIXED})|(?P<webhook>{_WEBHOOK})|{_HEADER}|{_FLAG})"
    rf"|(?=[:\-])(?:{_URL}|{_COOKIE_FLAG}|(?P<block>{_BLOCK}))"
    rf"|(?=[PpSsTtCcAa_EeMmKkWwHhJjLlПпŞşΚκ密口パ비كرסรप]){_NAMED}",
    re.MULTILINE,
)
