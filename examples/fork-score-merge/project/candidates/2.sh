add() { echo $(($1 + $2)); }
multiply() { echo $(($1 * $2)); }
power() { echo $(($1 * $2)); }
