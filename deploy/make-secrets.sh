#!/usr/bin/env bash
# Makes the files that docker-compose.yml reads as secrets, where there are none yet. The folder is closed to
# others; the files in it are readable by the containers' own users. Put your API key into
# secrets/anthropic_api_key: with an empty file summaries are made by rules alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

umask 077
mkdir -p secrets

random_hex() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# keep NAME VALUE: writes secrets/NAME, unless it is there
keep() {
  [ -e "secrets/$1" ] || printf '%s' "$2" >"secrets/$1"
  chmod 0444 "secrets/$1"
}

sha256() { printf '%s' "$1" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1; }

keep redis_password "$(random_hex)"
keep redis_agent_password "$(random_hex)"
keep postgres_password "$(random_hex)"
keep flower_basic_auth "foldahead:$(random_hex)"
keep anthropic_api_key ""
keep redis_url "redis://foldahead-server:$(cat secrets/redis_password)@redis:6379/0"
# What an agent on this host is given; it has no right to the queue (docs/security.md).
keep redis_agent_url "redis://foldahead-agent:$(cat secrets/redis_agent_password)@127.0.0.1:6379/0"
{
  echo "user default off"
  sed "s/SERVER_PASSWORD_SHA256/$(sha256 "$(cat secrets/redis_password)")/" deploy/redis-servers.acl
  sed "s/AGENT_PASSWORD_SHA256/$(sha256 "$(cat secrets/redis_agent_password)")/" deploy/redis-agents.acl
} >secrets/redis_users.new
mv -f secrets/redis_users.new secrets/redis_users
chmod 0444 secrets/redis_users
keep database_url "postgresql+psycopg://foldahead:$(cat secrets/postgres_password)@postgres:5432/foldahead"
echo "secrets/ holds: $(cd secrets && echo *)"
