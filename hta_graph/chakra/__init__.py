"""What simulators read: host traces in, linked JSON and ``.et`` files out, checked and executed."""
