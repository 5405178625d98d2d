add() { echo $(($1 + $2)); }
multiply() { echo $(($1 * $2)); }
power() {
    result=1
    for _ in $(seq "$2"); do result=$((result * $1)); done
    echo $result
}
