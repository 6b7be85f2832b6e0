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

keep redis_password "$(random_hex)"
keep postgres_password "$(random_hex)"
keep flower_basic_auth "foldahead:$(random_hex)"
keep anthropic_api_key ""
keep redis_url "redis://:$(cat secrets/redis_password)@redis:6379/0"
keep database_url "postgresql+psycopg://foldahead:$(cat secrets/postgres_password)@postgres:5432/foldahead"
echo "secrets/ holds: $(cd secrets && echo *)"
