"""Events: streams, lanes, handling, outcomes, outbox, receipts."""
