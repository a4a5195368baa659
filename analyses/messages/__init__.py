"""The sentences of answers: headlines, advice and notes, one module per topic; no module computes anything."""
