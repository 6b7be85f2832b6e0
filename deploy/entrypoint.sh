#!/bin/sh
# Reads secrets from files: for each variable NAME_FILE that is set, exports NAME with that file's content (an
# empty file sets nothing), then becomes the command. Passwords so stay out of the compose file and of the
# container's configuration.
set -eu

for name in FOLDAHEAD_REDIS_URL FOLDAHEAD_BROKER_URL FOLDAHEAD_DATABASE_URL ANTHROPIC_API_KEY FLOWER_BASIC_AUTH; do
  eval "file=\${${name}_FILE:-}"
  if [ -n "$file" ] && [ -s "$file" ]; then
    eval "$name=\$(cat \"\$file\")"
    export "${name?}"
  fi
done
exec "$@"
