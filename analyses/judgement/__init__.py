"""The judgement on a window: what is gained, by which change, how sure that is; every surface renders it."""
