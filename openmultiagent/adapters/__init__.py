"""Model providers: the adapter protocol and the adapters that speak it."""
