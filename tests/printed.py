"""The systems as papers and textbooks print them, written down independently of the code that computes them."""

PRINTED = {  # name of a system: each component of f, and of sqrt(g); the state is x, or x_1, x_2, ...
    "double_well": ((r"4 (x - x^3)",), (r"\sqrt{\max(4 - 1.25 x^2, 0)}",)),
    "wang_2d": (
        (r"x_1 (1 - x_1^2 - x_2^2) - x_2", r"x_2 (1 - x_1^2 - x_2^2) + x_1"),
        (r"\sqrt{1 + x_2^2}", r"\sqrt{1 + x_1^2}"),
    ),
    "damped_linear": ((r"-0.1 x_1 + 2 x_2", r"-2 x_1 - 0.1 x_2"), ("1", "1")),
    "damped_cubic": ((r"-0.1 x_1^3 + 2 x_2^3", r"-2 x_1^3 - 0.1 x_2^3"), ("1", "1")),
    "duffing": ((r"x_2", r"x_1 - x_1^3 - 0.35 x_2"), ("1", "1")),
    "glycolysis": ((r"-x_1 + 0.08 x_2 + x_1^2 x_2", r"0.6 - 0.08 x_1 - x_1^2 x_2"), ("1", "1")),
    "hopf": ((r"0.5 x_1 + x_2 - x_1 (x_1^2 + x_2^2)", r"-x_1 + 0.5 x_2 - x_2 (x_1^2 + x_2^2)"), ("1", "1")),
    "lorenz": ((r"10 (x_2 - x_1)", r"x_1 (28 - x_3) - x_2", r"x_1 x_2 - \frac{8}{3} x_3"), ("0.15", "0.15", "0.15")),
    "sine_wells": ((r"3 \sin(3 x) - 0.3 x",), (r"1.5 + 0.5 \cos(x)",)),
    "fine_sine_wells": ((r"6 \sin(6 x) - 0.8 x",), ("1.5",)),
    "tanh_switch": ((r"3 \tanh(3 x) - 2 x",), (r"0.5 + \frac{1}{1 + x^2}",)),
    "hill_switch": (
        (r"10 (0.2 + \frac{2 x^4}{1 + x^4} - x)",),
        (r"\sqrt{0.6 (0.2 + \frac{2 x^4}{1 + x^4} + \max(x, 0))}",),
    ),
    "square_root": ((r"2 (1 - x)",), (r"0.8 \sqrt{\max(x, 0)}",)),
    "geometric_brownian": ((r"0.05 x",), (r"0.2 x",)),
    "van_der_pol": ((r"x_2", r"3 (1 - x_1^2) x_2 - x_1"), ("0.2", "0.5")),
    "fitzhugh_nagumo": ((r"10 (x_1 - \frac{x_1^3}{3} - x_2 + 0.5)", r"0.8 (x_1 + 0.7 - 0.8 x_2)"), ("0.5", "0.2")),
    "muller_brown": (
        (
            r"-20 (x_1 - 1) \exp(-(x_1 - 1)^2 - 10 x_2^2) - 10 x_1 \exp(-x_1^2 - 10 (x_2 - 0.5)^2)"
            r" + 8.5 (11 (x_2 - 1.5) - 13 (x_1 + 0.5))"
            r" \exp(-6.5 (x_1 + 0.5)^2 + 11 (x_1 + 0.5) (x_2 - 1.5) - 6.5 (x_2 - 1.5)^2)"
            r" - 0.75 (1.4 (x_1 + 1) + 0.6 (x_2 - 1))"
            r" \exp(0.7 (x_1 + 1)^2 + 0.6 (x_1 + 1) (x_2 - 1) + 0.7 (x_2 - 1)^2)",
            r"-200 x_2 \exp(-(x_1 - 1)^2 - 10 x_2^2) - 100 (x_2 - 0.5) \exp(-x_1^2 - 10 (x_2 - 0.5)^2)"
            r" + 8.5 (11 (x_1 + 0.5) - 13 (x_2 - 1.5))"
            r" \exp(-6.5 (x_1 + 0.5)^2 + 11 (x_1 + 0.5) (x_2 - 1.5) - 6.5 (x_2 - 1.5)^2)"
            r" - 0.75 (0.6 (x_1 + 1) + 1.4 (x_2 - 1))"
            r" \exp(0.7 (x_1 + 1)^2 + 0.6 (x_1 + 1) (x_2 - 1) + 0.7 (x_2 - 1)^2)",
        ),
        ("1.6", "1.6"),
    ),
    "multi_well_plane": (
        (r"3 \sin(3 x_1) - 0.8 x_1 + \sin(x_2)", r"3 \sin(3 x_2) - 0.8 x_2 - \sin(x_1)"),
        (r"\sqrt{2 + \cos(x_2)}", r"\sqrt{2 + \cos(x_1)}"),
    ),
}
