"""The command line: what can be asked (``catalogue``), with which ``options``, who answers (``ask``, ``commands``)."""
