"""The command line: arguments parsed once into typed objects, commands declared one by one, exit statuses."""
