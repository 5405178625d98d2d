#!/bin/sh
# The REST API with nothing but curl: a sandbox, a file, a command, and away with it.
# ATOLL_SOCKET says where the daemon is; over TCP it would be a URL and a key (docs/access.md).
set -eu

api() { # METHOD PATH [CURL-OPTION...]
    method=$1 path=$2
    shift 2
    curl -sS --fail-with-body --unix-socket "${ATOLL_SOCKET:-/run/atoll/atoll.sock}" \
        -X "$method" "http://atoll/api/$path" "$@"
}

created=$(api POST sandboxes -d '{"limits":{"memoryMB":256,"timeoutSeconds":60}}')
id=$(expr "$created" : '.*"id":"\([a-z0-9]*\)"')
trap 'api DELETE "sandboxes/$id" >/dev/null' EXIT

printf '1\n2\n39\n' | api PUT "sandboxes/$id/files?path=numbers.txt" --data-binary @- >/dev/null

api POST "sandboxes/$id/execs?wait=true" -d '{"cmd":["sh","-c","sort -rn numbers.txt | head -n 1"]}'
