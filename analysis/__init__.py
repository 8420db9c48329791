"""From the records of finished runs to tables, verdicts and figures."""
