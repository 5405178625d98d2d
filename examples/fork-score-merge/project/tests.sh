# Tests of calc.sh. With "score": only the number of those that pass.
. ./calc.sh
pass=0
check() {
    if [ "$1" = "$2" ]; then pass=$((pass + 1)); elif [ -z "${score:-}" ]; then echo "expected $2, got $1"; fi
}
score=${1:-}
check "$(add 2 3)" 5
check "$(multiply 2 3)" 6
check "$(power 2 3)" 8
if [ "$score" = score ]; then echo "$pass"; exit 0; fi
echo "$pass of 3 tests pass"
[ "$pass" = 3 ]
