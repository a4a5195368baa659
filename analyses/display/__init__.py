"""How answers look: tables for terminals and pages, figures."""
