# Prints one piece of pi: the integral of 4 / (1 + x^2) from 0 to 1 by the midpoint rule.
BEGIN {
    step = 1 / (pieces * steps)
    for (i = piece * steps; i < (piece + 1) * steps; i++) {
        x = (i + 0.5) * step
        sum += 4 / (1 + x * x)
    }
    printf "%.17g\n", sum * step
}
