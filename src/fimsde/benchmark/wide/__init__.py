"""`fimsde bench wide`: families of random systems, and how much worse an estimator is than the best specialist."""
