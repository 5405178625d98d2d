#!/bin/sh
# Fork, score, merge: a test suite fails; three candidate fixes run in forks of the sandbox, each prints how many tests
# pass, and the best is merged. Needs a daemon on this machine and nothing else: ./run.sh
set -eu
atoll=${ATOLL:-atoll}
here=$(dirname "$0")

box=$("$atoll" create)
trap '"$atoll" rm "$box" >/dev/null' EXIT
"$atoll" cp "$here/project" "$box:/home/user/project"
cd_project='cd /home/user/project'

echo "before:"
"$atoll" exec "$box" -- sh -c "$cd_project && sh tests.sh" || true

# An agent would write the candidates; here they are files. The last line of the output is the score.
echo "candidates:"
"$atoll" try --count 3 "$box" -- sh -c "$cd_project && cp candidates/\$ATOLL_TRY.sh calc.sh && { sh tests.sh; sh tests.sh score; }"

echo "after:"
"$atoll" exec "$box" -- sh -c "$cd_project && sh tests.sh"
