"""Known numbers and tolerances that several test modules share."""

BETAS = (0.30, 0.40, 0.44, 0.50, 0.60)

# chi = 16, 20 steps, by an independent implementation.
LNZ = {0.30: 0.790559063800966}
GRAD = {0.30: 0.704498679529762}

# Minus the exact solution of the infinite lattice, per beta of BETAS; four digits are known.
LNZ_ERROR = (-7.150e-9, -7.605e-7, -4.578e-6, 4.576e-8, 6.399e-7)
U_ERROR = (3.913e-7, 3.380e-5, -5.583e-4, -1.889e-5, -7.621e-7)
ERROR_RTOL = 2e-3

# Closed forms: a few ulp.
EXACT = 1e-14
# ln Z sums 20 norms of tensors that several LAPACK builds decompose: some tens of ulp.
LNZ_ATOL = 2e-14
# The gradient divides by gaps between singular values, which multiplies those ulps.
GRAD_ATOL = 1e-11


def central(function, x, h):
    """Central difference: off by f'''(x) h^2 / 6, plus rounding of ulp(f) / h."""
    return (function(x + h) - function(x - h)) / (2 * h)
