"""How good predictions are: metrics, head and tail, intervals and tests, plots and pages."""
