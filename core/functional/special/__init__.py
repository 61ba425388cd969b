"""Special functions: gamma and zeta, error functions, Bessel functions, polynomials."""
