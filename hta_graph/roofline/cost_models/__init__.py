"""The models of operators by theme; ``all_models`` lists them."""
