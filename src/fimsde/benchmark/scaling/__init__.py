"""How the paper's model scales: arms of several sizes and data, trained side by side, judged on the same equations."""
