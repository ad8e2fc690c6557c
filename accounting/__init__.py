"""What was consumed and what it costs: prices by date, an append-only ledger, reports."""
